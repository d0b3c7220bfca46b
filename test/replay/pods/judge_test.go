package pods

import (
	"maps"
	"os"
	"testing"
)

func load(t *testing.T) []Case {
	t.Helper()
	dir := "../../recordings/pods"
	if _, err := os.Stat(dir); err != nil {
		t.Skip("the recordings are not here")
	}
	cases, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// Every recording is equal to itself, and every file of it was understood.
func TestRecordingsEqualThemselves(t *testing.T) {
	for _, c := range load(t) {
		diffs, near := Judge(&c, c.Recorded)
		if len(diffs) > 0 || !near {
			t.Errorf("%s: %v", c.Name, diffs)
		}
		if c.Stability.History == "" || len(c.Steps) == 0 {
			t.Errorf("%s: stability %q, %d steps", c.Name, c.Stability.History, len(c.Steps))
		}
	}
}

// A Pod that is never seen, a changed reason, a lost event and another exit code are told; and only the message is soft.
func TestJudgeTells(t *testing.T) {
	for _, c := range load(t) {
		if c.Name != "phase-exit1-always-loop" {
			continue
		}
		for _, change := range []struct {
			name   string
			change func(*Recording)
			near   bool
		}{
			{"no history", func(r *Recording) { r.History = nil }, false},
			{"another reason", func(r *Recording) { r.History = altered(r.History, "reason", "Error", "OOMKilled") }, false},
			{"another message", func(r *Recording) {
				r.History = altered(r.History, "message", "containers with unready status: [c]", "all is well")
			}, true},
			{"no events", func(r *Recording) { r.Events = nil }, false},
			{"one state less", func(r *Recording) { r.History = append(r.History[:6:6], r.History[10:]...) }, false},
			{"another exit code", func(r *Recording) {
				r.Output = append([]Command(nil), r.Output...)
				r.Output[0].Exit = "1"
			}, false},
		} {
			got := c.Recorded
			change.change(&got)
			if diffs, near := Judge(&c, got); len(diffs) == 0 || near != change.near {
				t.Errorf("%s: near %v, %v", change.name, near, diffs)
			}
		}
		return
	}
	t.Error("the case is gone")
}

// altered copies lines and replaces a value wherever it stands under a key.
func altered(lines []map[string]any, key, from, to string) []map[string]any {
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			out := maps.Clone(v)
			for k, x := range out {
				if out[k] = walk(x); k == key && x == from {
					out[k] = to
				}
			}
			return out
		case []any:
			out := make([]any, 0, len(v))
			for _, x := range v {
				out = append(out, walk(x))
			}
			return out
		}
		return v
	}
	var out []map[string]any
	for _, l := range lines {
		out = append(out, walk(l).(map[string]any))
	}
	return out
}

func TestAlignMergesWhatASlowerWatcherWouldMiss(t *testing.T) {
	state := func(at float64, phase string) map[string]any {
		return map[string]any{"t": at, "status": map[string]any{"phase": phase}}
	}
	for _, c := range []struct {
		name      string
		want, got []map[string]any
		same      bool
	}{
		{"brief state not seen", []map[string]any{state(0, "Pending"), state(1, "Running"), state(1.2, "Succeeded")}, []map[string]any{state(0, "Pending"), state(1, "Succeeded")}, true},
		{"long state not seen", []map[string]any{state(0, "Pending"), state(1, "Running"), state(9, "Succeeded")}, []map[string]any{state(0, "Pending"), state(1, "Succeeded")}, false},
		{"brief state of ours that upstream never shows", []map[string]any{state(0, "Pending"), state(1, "Running")}, []map[string]any{state(0, "Pending"), state(0.5, "Failed"), state(1, "Running")}, false},
		{"other end", []map[string]any{state(0, "Pending"), state(1, "Running")}, []map[string]any{state(0, "Pending"), state(1, "Failed")}, false},
		{"flap of upstream", []map[string]any{state(0, "Running"), state(5, "Pending"), state(5.1, "Running")}, []map[string]any{state(0, "Running")}, true},
		{"flap of ours", []map[string]any{state(0, "Running")}, []map[string]any{state(0, "Running"), state(5, "Pending"), state(7, "Running")}, false},
		{"late", []map[string]any{state(0, "Pending"), state(1, "Running")}, []map[string]any{state(0, "Pending"), state(30, "Running")}, false},
	} {
		diffs := differences("x", moments(c.want), moments(c.got))
		if (len(diffs) == 0) != c.same {
			t.Errorf("%s: %v", c.name, diffs)
		}
	}
}
