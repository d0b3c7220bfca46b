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
		diffs, near := Compare(&c, c.Recorded)
		if len(diffs) > 0 || !near {
			t.Errorf("%s: got %v, want no diffs and near true", c.Name, diffs)
		}
		if c.Stability.History == "" || len(c.Steps) == 0 {
			t.Errorf("%s: stability %q, %d steps", c.Name, c.Stability.History, len(c.Steps))
		}
	}
}

// A Pod that is never seen, a changed reason, a lost event and another exit code are reported; and
// only the message is soft.
func TestCompareReportsDifferences(t *testing.T) {
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
			{"another reason", func(r *Recording) { r.History = altered(r.History, "reason", "Error", "OOMKilled") },
				false},
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
			if diffs, near := Compare(&c, got); len(diffs) == 0 || near != change.near {
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
		{"brief state not seen", []map[string]any{state(0, "Pending"), state(1, "Running"), state(1.2, "Succeeded")},
			[]map[string]any{state(0, "Pending"), state(1, "Succeeded")}, true},
		{"long state not seen", []map[string]any{state(0, "Pending"), state(1, "Running"), state(9, "Succeeded")},
			[]map[string]any{state(0, "Pending"), state(1, "Succeeded")}, false},
		{"brief state of ours that upstream never shows", []map[string]any{state(0, "Pending"), state(1, "Running")},
			[]map[string]any{state(0, "Pending"), state(0.5, "Failed"), state(1, "Running")}, false},
		{"other end", []map[string]any{state(0, "Pending"), state(1, "Running")},
			[]map[string]any{state(0, "Pending"), state(1, "Failed")}, false},
		{"flap of upstream", []map[string]any{state(0, "Running"), state(5, "Pending"), state(5.1, "Running")},
			[]map[string]any{state(0, "Running")}, true},
		{"flap of ours", []map[string]any{state(0, "Running")},
			[]map[string]any{state(0, "Running"), state(5, "Pending"), state(7, "Running")}, false},
		{"late", []map[string]any{state(0, "Pending"), state(1, "Running")},
			[]map[string]any{state(0, "Pending"), state(30, "Running")}, false},
		{"sooner", []map[string]any{state(0, "Pending"), state(30, "Running")},
			[]map[string]any{state(0, "Pending"), state(4, "Running")}, true},
		{"sooner by a round", []map[string]any{state(0, "Pending"), state(16.4, "Running")},
			[]map[string]any{state(0, "Pending"), state(0.7, "Running")}, true},
		{"another magnitude", []map[string]any{state(0, "Pending"), state(30, "Running")},
			[]map[string]any{state(0, "Pending"), state(1, "Running")}, false},
	} {
		diffs := differences("x", snapshots(c.want), snapshots(c.got))
		if (len(diffs) == 0) != c.same {
			t.Errorf("%s: got differences %v, want none: %t", c.name, diffs, c.same)
		}
	}
}

// What upstream's first probe found before the program listened is asked only of those whose
// program did not listen either.
func TestEarlyProbes(t *testing.T) {
	event := func(message string, count float64) map[string]any {
		return map[string]any{"type": "Warning", "reason": "Unhealthy", "object": "Pod/p",
			"fieldPath": "spec.containers{c}", "message": message, "count": count}
	}
	refused := event("Readiness probe failed: dial tcp <pod-ip1>:80: connect: connection refused", 1)
	later := event("Readiness probe failed: HTTP probe failed with statuscode: 500", 3)
	for _, c := range []struct {
		name      string
		want, got []map[string]any
		left      int
	}{
		{"it listened at the second probe", []map[string]any{refused, later}, []map[string]any{later}, 1},
		{"ours saw it too", []map[string]any{refused, later}, []map[string]any{refused, later}, 2},
		{"it never listened", []map[string]any{refused}, nil, 1},
		{"it was refused again", []map[string]any{event(refused["message"].(string), 2), later},
			[]map[string]any{later}, 2},
	} {
		if got := (Recording{Events: c.want}).withoutEarlyProbes(Recording{Events: c.got}); len(got) != c.left {
			t.Errorf("%s: %d left, want %v", c.name, len(got), c.left)
		}
	}
}

// A describe that looked at the state just before or after the one upstream's looked at is compared
// in what stays.
func TestDescribeBetweenStates(t *testing.T) {
	at := func(t, n float64) map[string]any {
		return map[string]any{"t": t, "pod": "p",
			"status": map[string]any{"phase": "Running",
				"containerStatuses": []any{map[string]any{"name": "c", "restartCount": n,
					"state": map[string]any{"running": map[string]any{}}}}}}
	}
	text := func(n string, image string) []Text {
		return []Text{newText("Name: p\nContainers:\n  c:\n    Image: " + image + "\n    Restart Count:  " + n)}
	}
	want := Recording{History: []map[string]any{at(0, 0), at(3, 1), at(4.8, 2)}, Describe: text("1", "a"), End: 4.7}
	for _, c := range []struct {
		name string
		got  Recording
		n    int
	}{
		{"a turn ahead that upstream shows a moment later",
			Recording{History: []map[string]any{at(0, 0), at(2, 1), at(4.5, 2)}, Describe: text("2", "a"),
				End: 4.9}, 0},
		{"what stays differs", Recording{History: []map[string]any{at(0, 0), at(2, 1), at(4.5, 2)},
			Describe: text("2", "b"), End: 4.9}, 1},
		{"the same state, another text", Recording{History: []map[string]any{at(0, 0), at(2, 1)},
			Describe: text("2", "a"), End: 4.9}, 1},
		{"a state that upstream does not show", Recording{History: []map[string]any{at(0, 0), at(2, 1), at(4.5, 3)},
			Describe: text("3", "a"), End: 4.9}, 1},
	} {
		if diffs := describesDiffer(want, c.got, true); len(diffs) != c.n {
			t.Errorf("%s: got %v, want %v in diffs", c.name, diffs, c.n)
		}
	}
}

// A case that ends in a loop says where; one without restarts ends by its clock.
func TestEventOrderNamesWhereALoopEnded(t *testing.T) {
	for _, c := range load(t) {
		turn, stay := c.Recorded.eventOrder()
		switch c.Name {
		case "phase-exit1-always-loop":
			if turn["p"] != "Running c terminated Error restarted 2" || stay < 10e9 || stay > 12e9 {
				t.Errorf(`%s: got %v, %s, want turn[p] "Running c terminated Error restarted 2", stay at least 10e9 `+
					`and stay at most 12e9`, c.Name, turn, stay)
			}
		case "phase-container-slow-stop-restart":
			if turn["p"] != "Running c running <nil> restarted 2" {
				t.Errorf(`%s: got %v, want turn[p] "Running c running <nil> restarted 2"`, c.Name, turn)
			}
		case "qos-guaranteed":
			if len(turn) != 0 {
				t.Errorf("%s: got %v, want no turn", c.Name, turn)
			}
		}
	}
}
