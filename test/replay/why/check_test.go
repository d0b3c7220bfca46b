package why

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func stepOf(t *testing.T, text string) Step {
	t.Helper()
	var s Step
	if err := yaml.Unmarshal([]byte(text), &s); err != nil {
		t.Fatalf("%s: got error %v, want none", text, err)
	}
	return s
}

// A step's name is that of the action's target, as its own field would be.
func TestStepNameNamesItsTarget(t *testing.T) {
	for text, get := range map[string]func(Step) string{
		"{do: component, name: scheduler, state: stopped} # scheduler":    func(s Step) string { return s.Component },
		"{do: configure, name: X}":                                        func(s Step) string { return s.Component },
		"{do: fake-node, name: X, heartbeat: stop}":                       func(s Step) string { return s.Node },
		"{do: uncordon, name: X}":                                         func(s Step) string { return s.Node },
		"{do: fake-pod, name: X, ready: false}":                           func(s Step) string { return s.Pod },
		"{do: delete, name: X}":                                           func(s Step) string { return s.Object },
		"{do: wait, name: X, until: deleted}":                             func(s Step) string { return s.For },
		"{do: registry, name: X}":                                         func(s Step) string { return s.Host },
		"{do: fake-node, node: X, name: other, heartbeat: stop}":          func(s Step) string { return s.Node },
		"{do: delete, kind: Pod, name: web, namespace: a} # pod/web -n a": func(s Step) string { return s.Object },
		"{do: evict, name: web} # pod/web":                                func(s Step) string { return s.Object },
	} {
		want := "X"
		if _, said, ok := strings.Cut(text, "# "); ok {
			want = said
		}
		s := stepOf(t, text)
		if got := get(s); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if err := s.check(); err != nil {
			t.Errorf("%s: got error %v, want none", text, err)
		}
	}
}

// Whatever this runner does not know is refused by name before anything is run.
func TestUnknownFormsAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"{do: reboot, node: n1}":                                       "`do: reboot`",
		"{do: delete, object: pod/web, gracePeriod: 3}":                "gracePeriod",
		"{do: create, name: web, manifest: {}}":                        "name",
		"{do: delete}":                                                 "its object",
		"{do: sleep, for: long}":                                       `"long"`,
		"{do: component, name: etcd, state: stopped}":                  `"etcd"`,
		"{do: component, name: scheduler, state: paused}":              `"paused"`,
		"{do: fake-node, node: n1, heartbeat: slow}":                   `"slow"`,
		"{do: wait, for: pod/web, until: happy}":                       `"happy"`,
		"{do: wait, for: pod/web, until: condition}":                   `"condition"`,
		"{do: wait, for: pod/web, until: restartCount<2}":              `"restartCount<2"`,
		"{do: wait, for: pod/web}":                                     "`until`",
		"{do: wait, for: pods all, until: one has a good day}":         `"a"`,
		"{do: wait, for: pods all, until: at least many have phase P}": `"many"`,
		"{do: wait, for: pods a=b c=d, until: phase Running}":          `"c=d"`,
		"{do: wait, for: pods all, until: one deleted}":                "all deleted",
	} {
		if err := stepOf(t, text).check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func podOf(name, phase, ready string) map[string]any {
	return map[string]any{"kind": "Pod", "metadata": map[string]any{"name": name}, "status": map[string]any{
		"phase": phase, "conditions": []any{map[string]any{"type": "Ready", "status": ready, "reason": "R"}},
		"containerStatuses": []any{map[string]any{
			"name": "app", "restartCount": int64(2), "state": map[string]any{"waiting": map[string]any{"reason": "W"}},
		}},
	}}
}

// Several objects show what each of so many of them shows.
func TestConditionsOfSeveralObjects(t *testing.T) {
	some := []map[string]any{podOf("a", "Running", "True"), podOf("b", "Running", "False"),
		podOf("c", "Failed", "False")}
	for until, want := range map[string]bool{
		"one has condition Ready":                   true,
		"one has condition Ready=True":              true,
		"one has condition Ready=True reason R":     true,
		"one has condition Ready=True reason other": false,
		"one has condition PodScheduled=False":      false,
		"two have condition Ready":                  false,
		"2 have phase Running":                      true,
		"at least 2 have phase Running":             true,
		"at least 3 have phase Running":             false,
		"at most one has phase Failed":              true,
		"exactly 1 have condition Ready":            true,
		"exactly one has phase Running":             false,
		"all have phase Running":                    false,
		"each has container app waiting W":          true,
		"none has phase Succeeded":                  true,
		"no pods have phase Failed":                 false,
		"some are status.phase=Failed":              true,
		"restartCount>=2":                           true,
		"condition Ready":                           false,
		"three exist":                               true,
		"all deleted":                               false,
	} {
		a, each, err := amountOf(until)
		if err != nil {
			t.Errorf("%s: got error %v, want none", until, err)
			continue
		}
		if err := a.check(some, each); (err == nil) != want {
			t.Errorf("%s: %v, want %v", until, err, want)
		}
	}
	for until, want := range map[string]bool{"all deleted": true, "deleted": true, "condition Ready": false,
		"all have phase Running": false, "none has phase Running": true} {
		a, each, err := amountOf(until)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.check(nil, each); (err == nil) != want {
			t.Errorf("%s of none: %v, want %v", until, err, want)
		}
	}
}

// Groups are named as kubectl names them.
func TestGroups(t *testing.T) {
	for text, want := range map[string]group{
		"pods all":             {"pods", "", "default"},
		"pods app=web":         {"pods", "app=web", "default"},
		"pods app=web -n team": {"pods", "app=web", "team"},
		"pods all -n team":     {"pods", "", "team"},
		"pods -A":              {"pods", "", ""},
		"nodes":                {"nodes", "", "default"},
	} {
		if got, ok, err := groupOf(text); !ok || err != nil || got != want {
			t.Errorf("%s: %v %v %v, want %v", text, got, ok, err, want)
		}
	}
	if _, ok, _ := groupOf("deployment/web -n team-a"); ok {
		t.Error("one object was taken for several")
	}
}

// Every fixture of the tree, and of the directory GANTRY_FIXTURES, has only forms that this runner
// knows.
func TestFixturesHaveKnownForms(t *testing.T) {
	for _, dir := range []string{"../../fixtures/why", "../../fixtures/why-own", "../../fixtures/why-fresh",
		os.Getenv("GANTRY_FIXTURES")} {
		if dir == "" {
			continue
		}
		all, err := Load(filepath.Clean(dir), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			if err := f.check(); err != nil {
				t.Error(err)
			}
		}
	}
}
