package pods

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// wait waits as a step says; running into its time limit is upstream's behaviour in some cases and
// no error.
func (l *podRun) wait(ctx context.Context, s Wait) {
	l.watch.until(ctx, time.Duration(s.Timeout*float64(time.Second)), func(st *state) bool {
		if s.Object != "" {
			return objectIs(st.objects[s.Object], s.Until)
		}
		name := st.resolve(s.Pod)
		// One that has gone since the last action met the wait, though another of its name has come
		// since.
		return s.Until == "gone" && st.deletions[name] > l.deletions[name] || st.podIs(name, s.Until)
	})
}

// podIs reports whether a Pod is what `until` says.
func (s *state) podIs(name, until string) bool {
	pod := s.pods[name]
	if until == "gone" {
		return pod == nil
	}
	if what, ok := strings.CutPrefix(until, "event="); ok {
		reason, n, _ := strings.Cut(what, ":")
		least, err := strconv.ParseFloat(n, 64)
		if err != nil {
			least = 1
		}
		return s.events[reason] >= least
	}
	if pod == nil {
		return false
	}
	switch key, value, _ := strings.Cut(until, "="); key {
	case "ready":
		return condition(pod, "Ready", "True")
	case "unready":
		return condition(pod, "Ready", "False")
	case "scheduled":
		return condition(pod, "PodScheduled", "True")
	case "deleting":
		return dig(pod, "metadata", "deletionTimestamp") != nil
	case "phase":
		return dig(pod, "status", "phase") == value
	case "cond":
		kind, status, _ := strings.Cut(value, "=")
		return condition(pod, kind, status)
	case "restarts>":
		least, _ := strconv.ParseFloat(value, 64)
		return slices.ContainsFunc(statuses(pod),
			func(c map[string]any) bool { n, _ := c["restartCount"].(float64); return n >= least })
	case "waiting":
		return slices.ContainsFunc(statuses(pod),
			func(c map[string]any) bool { return dig(c, "state", "waiting", "reason") == value })
	case "running", "terminated":
		return slices.ContainsFunc(statuses(pod),
			func(c map[string]any) bool { return c["name"] == value && dig(c, "state", key) != nil })
	}
	return false
}

// objectIs reports whether another object is what `until` says.
func objectIs(o map[string]any, until string) bool {
	if until == "gone" {
		return o == nil
	}
	if o == nil {
		return false
	}
	if value, ok := strings.CutPrefix(until, "cond="); ok {
		kind, status, _ := strings.Cut(value, "=")
		return condition(o, kind, status)
	}
	if field, value, ok := strings.Cut(until, ">="); ok {
		least, _ := strconv.ParseFloat(value, 64)
		n, _ := dig(o, "status", field).(float64)
		return n >= least
	}
	field, value, _ := strings.Cut(until, "=")
	v := dig(o, "status", field)
	if v == nil {
		v = 0
	}
	return fmt.Sprint(v) == value
}

func condition(o map[string]any, kind, status string) bool {
	list, _ := dig(o, "status", "conditions").([]any)
	return slices.ContainsFunc(list, func(c any) bool { return dig(c, "type") == kind && dig(c, "status") == status })
}

// statuses are the container statuses of all three sorts.
func statuses(pod map[string]any) []map[string]any {
	var out []map[string]any
	for _, sort := range []string{"initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"} {
		list, _ := dig(pod, "status", sort).([]any)
		for _, c := range list {
			if m, ok := c.(map[string]any); ok {
				out = append(out, m)
			}
		}
	}
	return out
}
