package why

import (
	"encoding/json"
	"fmt"
	"strings"
)

// holds tells whether an object shows what the words say: "condition T=S [reason R]", "container C waiting R", "restartCount>=N", "path.to.field=value", several in a row.
// What cannot be read from one object is refused.
func holds(o map[string]any, until string) (bool, string) {
	words := strings.Fields(until)
	for i := 0; i < len(words); {
		switch {
		case words[i] == "condition" && i+1 < len(words):
			t, s, _ := strings.Cut(words[i+1], "=")
			i += 2
			reason := ""
			if i+1 < len(words) && words[i] == "reason" {
				reason, i = words[i+1], i+2
			}
			if ok, have := condition(o, t, s, reason); !ok {
				return false, have
			}
		case words[i] == "container" && i+3 < len(words) && words[i+2] == "waiting":
			if !strings.Contains(brief(o), fmt.Sprintf("%q", words[i+3])) {
				return false, brief(o)
			}
			i += 4
		case strings.HasPrefix(words[i], "restartCount"):
			if ok, have := restarts(o, strings.TrimPrefix(words[i], "restartCount")); !ok {
				return false, have
			}
			i++
		case strings.Contains(words[i], "="):
			path, want, _ := strings.Cut(words[i], "=")
			if have := fmt.Sprint(field(o, path)); have != want {
				return false, fmt.Sprintf("%s is %s", path, have)
			}
			i++
		case words[i] == "counts":
			if hard, _ := field(o, "status.hard").(map[string]any); len(hard) == 0 {
				return false, "it does not count yet"
			}
			i++
		case words[i] == "deleted":
			return false, "it is still there"
		default:
			return false, "these words are not understood here"
		}
	}
	return true, ""
}

// restarts compares the restarts of all containers with ">=2" or "=0".
func restarts(o map[string]any, want string) (bool, string) {
	sum := 0
	for _, list := range []string{"status.initContainerStatuses", "status.containerStatuses"} {
		all, _ := field(o, list).([]any)
		for _, x := range all {
			c, _ := x.(map[string]any)
			n, _ := c["restartCount"].(int64)
			sum += int(n)
		}
	}
	var bound int
	if n, _ := fmt.Sscanf(want, ">=%d", &bound); n == 1 {
		return sum >= bound, fmt.Sprintf("%d restarts", sum)
	}
	if n, _ := fmt.Sscanf(want, "=%d", &bound); n == 1 {
		return sum == bound && field(o, "status.phase") == "Running", fmt.Sprintf("%d restarts: %s", sum, brief(o))
	}
	return false, "restartCount" + want + " is not understood here"
}

func brief(o map[string]any) string {
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
			return c["status"] == s && (reason == "" || c["reason"] == reason), fmt.Sprintf("%v=%v %v: %v", c["type"], c["status"], c["reason"], c["message"])
		}
	}
	return false, "no such condition"
}
