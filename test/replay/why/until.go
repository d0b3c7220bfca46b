package why

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// predicate reports whether an object shows something, and what it shows instead.
type predicate func(o map[string]any) (bool, string)

// parsePredicates reads what an object shall show, several in a row: "condition T[=S] [reason R]"
// (S is True unless said), "container C waiting|terminated|running [R]", "phase P",
// "restartCount>=N", "path.to.field=value", "path.to.field>=N", "counts" (a quota), "exists",
// "deleted". Other words are an error that names them.
func parsePredicates(until string) ([]predicate, error) {
	var out []predicate
	for at := strings.Fields(until); len(at) > 0; {
		p, used := parsePredicate(at)
		if p == nil {
			return nil, fmt.Errorf("%q of %q is no form that this runner knows", at[0], until)
		}
		out, at = append(out, p), at[used:]
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there are no words for what to wait for")
	}
	return out, nil
}

// parsePredicate reads one form and returns how many words it has; nil when it is none.
func parsePredicate(at []string) (predicate, int) {
	switch {
	case at[0] == "condition" && len(at) > 1:
		t, s, said := strings.Cut(at[1], "=")
		if !said {
			s = "True"
		}
		if len(at) > 3 && at[2] == "reason" {
			return func(o map[string]any) (bool, string) { return condition(o, t, s, at[3]) }, 4
		}
		return func(o map[string]any) (bool, string) { return condition(o, t, s, "") }, 2
	case at[0] == "container" && len(at) > 2 && slices.Contains([]string{"waiting", "terminated", "running"}, at[2]):
		if at[2] == "running" || len(at) == 3 {
			return func(o map[string]any) (bool, string) { return container(o, at[1], at[2], "") }, 3
		}
		return func(o map[string]any) (bool, string) { return container(o, at[1], at[2], at[3]) }, 4
	case at[0] == "phase" && len(at) > 1:
		return equal("status.phase", at[1]), 2
	case strings.HasPrefix(at[0], "restartCount"):
		return restarts(strings.TrimPrefix(at[0], "restartCount")), 1
	case strings.Contains(at[0], ">="):
		path, bound, _ := strings.Cut(at[0], ">=")
		if least, err := strconv.ParseFloat(bound, 64); err == nil {
			return atLeast(path, least), 1
		}
	case strings.Contains(at[0], "="):
		path, want, _ := strings.Cut(at[0], "=")
		return equal(path, want), 1
	case at[0] == "counts":
		return counts, 1
	case at[0] == "exists" || at[0] == "exist":
		return func(map[string]any) (bool, string) { return true, "" }, 1
	case at[0] == "deleted":
		return func(map[string]any) (bool, string) { return false, "it is still there" }, 1
	}
	return nil, 0
}

// conditionMet reports whether an object shows what the words say.
func conditionMet(o map[string]any, until string) (bool, string) {
	all, err := parsePredicates(until)
	if err != nil {
		return false, err.Error()
	}
	for _, p := range all {
		if ok, have := p(o); !ok {
			return false, have
		}
	}
	return true, ""
}

func equal(path, want string) predicate {
	return func(o map[string]any) (bool, string) {
		have := fmt.Sprint(field(o, path))
		return have == want, fmt.Sprintf("%s is %s", path, have)
	}
}

func atLeast(path string, least float64) predicate {
	return func(o map[string]any) (bool, string) {
		have := fmt.Sprint(field(o, path))
		n, err := strconv.ParseFloat(have, 64)
		return err == nil && n >= least, fmt.Sprintf("%s is %s", path, have)
	}
}

func counts(o map[string]any) (bool, string) {
	hard, _ := field(o, "status.hard").(map[string]any)
	return len(hard) > 0, "it does not count yet"
}

// container reports whether a container is in a state, for a reason when one is given.
func container(o map[string]any, name, state, reason string) (bool, string) {
	for _, list := range []string{"status.initContainerStatuses", "status.containerStatuses",
		"status.ephemeralContainerStatuses"} {
		all, _ := field(o, list).([]any)
		for _, x := range all {
			c, _ := x.(map[string]any)
			is, _ := field(c, "state."+state).(map[string]any)
			if c["name"] == name && is != nil && (reason == "" || is["reason"] == reason) {
				return true, ""
			}
		}
	}
	return false, abbreviate(o)
}

// restarts compares the restarts of all containers with ">=2" or "=0"; nil for other words.
func restarts(want string) predicate {
	exact := strings.TrimPrefix(want, "=")
	bound, err := strconv.Atoi(strings.TrimPrefix(exact, ">="))
	atLeast := strings.HasPrefix(want, ">=")
	if err != nil || exact == want && !atLeast {
		return nil
	}
	return func(o map[string]any) (bool, string) {
		sum := 0
		for _, list := range []string{"status.initContainerStatuses", "status.containerStatuses"} {
			all, _ := field(o, list).([]any)
			for _, x := range all {
				c, _ := x.(map[string]any)
				n, _ := c["restartCount"].(int64)
				sum += int(n)
			}
		}
		if atLeast {
			return sum >= bound, fmt.Sprintf("%d restarts", sum)
		}
		return sum == bound && field(o, "status.phase") == "Running", fmt.Sprintf("%d restarts: %s", sum, abbreviate(o))
	}
}

func abbreviate(o map[string]any) string {
	raw, err := json.Marshal(o["status"])
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func field(o map[string]any, path string) any {
	var v any = o
	for _, k := range strings.Split(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[k]
	}
	if v == nil && strings.HasPrefix(path, "status.") {
		return 0 // counts that are zero are left out
	}
	return v
}

func condition(o map[string]any, t, s, reason string) (bool, string) {
	list, _ := field(o, "status.conditions").([]any)
	for _, x := range list {
		c, _ := x.(map[string]any)
		if c["type"] == t {
			return c["status"] == s && (reason == "" || c["reason"] == reason),
				fmt.Sprintf("%v=%v %v: %v", c["type"], c["status"], c["reason"], c["message"])
		}
	}
	return false, "no such condition"
}
