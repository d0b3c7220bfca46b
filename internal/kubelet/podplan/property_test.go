package podplan_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// row: PWK-26
func TestPlansKeepInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawSimulation(t)
		w.now = epoch
		steps := rapid.IntRange(1, 12).Draw(t, "steps")
		for range steps {
			drawEvent(t, w)
			before := len(w.lines)
			w.run(w.now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second))
			check(t, w, w.lines[before:])
		}
		if w.end == nil {
			w.end, w.remove = &podplan.Termination{Cause: "deleted", RequestedAt: w.now, Grace: 10 * time.Second}, true
		}
		w.remove = true
		w.run(w.now.Add(10 * time.Minute))
		if !w.done || len(w.seen.Containers)+len(w.seen.Sandboxes) != 0 {
			t.Fatalf("a Pod that was asked to end is not gone: %+v\n%s", w.seen, strings.Join(w.lines, "\n"))
		}
	})
}

func drawSimulation(t *rapid.T) *simulation {
	w := newSimulation()
	w.pod.Spec.RestartPolicy = rapid.SampledFrom([]v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure,
		v1.RestartPolicyNever}).Draw(t, "policy")
	always := v1.ContainerRestartPolicyAlways
	for _, name := range []string{"i1", "i2", "i3"}[:rapid.IntRange(0, 3).Draw(t, "inits")] {
		c := v1.Container{Name: name}
		w.scripts[name] = drawScript(t, name, true)
		if rapid.Bool().Draw(t, name+" is a sidecar") {
			c.RestartPolicy = &always
			w.scripts[name] = drawScript(t, name, false)
		}
		w.pod.Spec.InitContainers = append(w.pod.Spec.InitContainers, c)
	}
	for _, name := range []string{"a", "b"}[:rapid.IntRange(1, 2).Draw(t, "apps")] {
		c := v1.Container{Name: name}
		if rapid.IntRange(0, 3).Draw(t, name+" starts all over") == 0 {
			c.RestartPolicyRules = []v1.ContainerRestartRule{restartAllOn(1)}
		}
		if rapid.Bool().Draw(t, name+" is restarted for its size") {
			c.ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceCPU,
				RestartPolicy: v1.RestartContainer}}
		}
		w.pod.Spec.Containers = append(w.pod.Spec.Containers, c)
		w.scripts[name] = drawScript(t, name, rapid.Bool().Draw(t, name+" ends"))
	}
	return w
}

func restartAllOn(code int32) v1.ContainerRestartRule {
	return v1.ContainerRestartRule{
		Action: v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn,
			Values: []int32{code}},
	}
}

func drawScript(t *rapid.T, name string, ends bool) script {
	s := script{term: time.Duration(rapid.IntRange(-1, 5).Draw(t, name+" term")) * time.Second}
	if ends {
		s.after = time.Duration(rapid.IntRange(1, 30).Draw(t, name+" after")) * time.Second
		s.code = int32(rapid.IntRange(0, 1).Draw(t, name+" code"))
	}
	if !strings.HasPrefix(name, "i") && rapid.IntRange(0, 5).Draw(t, name+" sick") == 0 {
		s.failedProbe = "liveness"
	}
	return s
}

func drawEvent(t *rapid.T, w *simulation) {
	switch rapid.IntRange(0, 12).Draw(t, "event") {
	case 12: // the next sandbox's making is given up; it comes before it is too late, or never
		w.lateSandbox.after = time.Duration(rapid.IntRange(-1, 9).Draw(t, "comes after")) * time.Second
	case 0:
		if s := w.seen.Sandbox(); s != nil {
			w.log("! sandbox dies")
			w.stopSandbox(s.ID)
		}
	case 1:
		w.log("! kubelet restarts")
		// of a doubt it knows nothing, and holds the name instead
		// (Pool.ReserveNameForUncertainSandbox)
		w.facts = podplan.Facts{Accepted: epoch, UncertainSandbox: w.facts.UncertainSandbox}
		if w.end != nil {
			w.facts.StopRequested = w.now
		}
		w.tries = map[string]podplan.Try{}
		w.done = false
	case 2:
		if w.end == nil && rapid.Bool().Draw(t, "really") {
			w.log("! delete")
			w.end, w.remove = &podplan.Termination{Cause: "deleted", RequestedAt: w.now,
				Grace: time.Duration(rapid.IntRange(0, 10).Draw(t, "grace")) * time.Second}, true
		}
	case 3:
		w.fails["a"] = fault{"ErrImagePull", w.now.Add(15 * time.Second)}
	case 4:
		w.fails[podplan.SandboxTry] = fault{"FailedCreatePodSandBox", w.now.Add(12 * time.Second)}
	case 5:
		w.fails[podplan.StopTry] = fault{"FailedStop", w.now.Add(12 * time.Second)}
	case 6:
		if w.end == nil {
			cpu := rapid.SampledFrom([]string{"100m", "200m"}).Draw(t, "cpu")
			if err := w.resize("a", cpu); err != nil {
				t.Fatal(err)
			}
		}
	case 7:
		w.fails[podplan.ResizeTry] = fault{"ResizeError", w.now.Add(12 * time.Second)}
	case 8: // the runtime was away: what ended meanwhile has no exit code (LAB.md section 6)
		if c := w.seen.Latest("a"); c != nil && c.State == podplan.Running {
			w.log("! a exits while the runtime is down")
			w.finish(c.ID, w.now, 255)
		}
	case 9: // its shim was killed: the sandbox is not ready, its containers are said to run until they are stopped
		if s := w.seen.Sandbox(); s != nil {
			w.log("! shim is killed")
			for i := range w.seen.Sandboxes {
				w.seen.Sandboxes[i].Ready = false
			}
		}
	}
}

// check holds the rules that no plan may break.
func check(t *rapid.T, w *simulation, lines []string) {
	script := func() string { return strings.Join(w.lines, "\n") }
	ready := 0
	for _, s := range w.seen.Sandboxes {
		if s.Ready {
			ready++
		}
	}
	if ready > 1 {
		t.Fatalf("%d sandboxes are ready\n%s", ready, script())
	}
	running := map[string]int{}
	for _, c := range w.seen.Containers {
		if c.State == podplan.Running {
			running[c.Name]++
		}
	}
	for name, n := range running {
		if n > 1 {
			t.Fatalf("%s runs %d times\n%s", name, n, script())
		}
	}
	if w.end != nil {
		requestedAt := slices.IndexFunc(w.lines, func(l string) bool { return strings.Contains(l, "! delete") })
		for _, l := range w.lines[requestedAt+1:] {
			if strings.Contains(l, "start ") || strings.Contains(l, "create sandbox") {
				t.Fatalf("%q after the stop was asked for\n%s", l, script())
			}
		}
	}
	initsFirst(t, w, lines)
	in := w.planInput()
	if one, two := podplan.Next(in), podplan.Next(in); !reflect.DeepEqual(one, two) {
		t.Fatalf("two plans for the same input:\n%+v\n%+v", one, two)
	} else if len(one.Do) != 0 {
		t.Fatalf("not settled: %+v\n%s", one, script())
	}
	if script := script(); strings.Contains(script, "DOES NOT SETTLE") {
		t.Fatalf(`got %v, want script without "DOES NOT SETTLE"`, script)
	}
}

// initsFirst: while an app container runs, every init container of its sandbox has succeeded or was
// forgotten with an older life.
func initsFirst(t *rapid.T, w *simulation, lines []string) {
	for _, c := range w.seen.Containers {
		m, _ := podplan.MemberOf(w.pod, c.Name)
		if m.Kind != podplan.App || c.State != podplan.Running {
			continue
		}
		for _, i := range podplan.Members(w.pod) {
			if r := w.seen.In(c.Sandbox, i.Name); i.Kind == podplan.Init && (r == nil || r.State != podplan.Exited ||
				r.Exit.Code != 0) {
				t.Fatalf("%s runs before %s has succeeded\n%s", c.Name, i.Name, strings.Join(lines, "\n"))
			}
		}
	}
}

// row: PWK-06
func TestStageOnlyGrows(t *testing.T) {
	at := time.Unix(1, 0)
	f := podplan.Facts{}
	last := f.Stage()
	for _, learn := range []func(){
		func() { f.Accepted = at }, func() { f.VolumesReady = at }, func() { f.StopRequested = at },
		func() { f.ContainersStopped = at }, func() { f.Released = at }, func() { f.Removed = at },
	} {
		learn()
		if s := f.Stage(); s < last {
			t.Errorf("from %s to %s", last, s)
		} else {
			last = s
		}
	}
	if last != podplan.Gone {
		t.Errorf("last = %v, want %v", last, podplan.Gone)
	}
}
