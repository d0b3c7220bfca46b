package podplan_test

import (
	"fmt"
	"sort"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/reason"
)

// simulation is a runtime of values: actions take no time, containers end when their script says
// so. It needs no goroutine and no clock.
type simulation struct {
	pod         *v1.Pod
	scripts     map[string]script
	seen        podplan.Observed
	facts       podplan.Facts
	end         *podplan.Termination
	remove      bool
	health      map[string]podplan.Health
	tries       map[string]podplan.Try
	fails       map[string]fault
	now         time.Time
	serial      int
	done        bool
	lines       []string
	reported    map[string]bool
	applied     podplan.Applied // nil until the first resize
	lateSandbox lateSandbox
}

// lateSandbox is a sandbox whose making is given up.
type lateSandbox struct {
	after   time.Duration // the next one comes so long after; negative: never; 0: none is given up
	at      time.Time     // this one comes then; zero: none is on its way
	attempt uint32
}

// script is what a container does.
type script struct {
	after       time.Duration // it ends by itself then; 0: never
	code        int32
	term        time.Duration // from TERM to its end; negative: it ignores TERM
	failedProbe string        // probe that has failed it for good, 3 s after each start
}

// fault makes starts of a container fail until a time.
type fault struct {
	code  reason.Code
	until time.Time
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newSimulation() *simulation {
	grace := int64(30)
	return &simulation{
		pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"},
			Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: &grace}},
		scripts: map[string]script{}, health: map[string]podplan.Health{}, tries: map[string]podplan.Try{},
		fails: map[string]fault{},
		now:   epoch, facts: podplan.Facts{Accepted: epoch}, reported: map[string]bool{},
	}
}

func (w *simulation) planInput() podplan.In {
	health := map[string]podplan.Health{}
	for i := range w.seen.Containers {
		c := &w.seen.Containers[i]
		if c.State == podplan.Running {
			h := podplan.Health{Started: true, Ready: true}
			if s := w.scripts[c.Name]; s.failedProbe != "" && !w.now.Before(c.Started.Add(3*time.Second)) {
				h.FailedProbe, h.Ready = s.failedProbe, false
			}
			health[c.Name] = h
		}
	}
	return podplan.In{Pod: w.pod, Observed: w.seen, Facts: w.facts, End: w.end, Remove: w.remove, Health: health,
		Tries: w.tries, Now: w.now, Applied: w.applied}
}

func (w *simulation) log(format string, args ...any) {
	w.lines = append(w.lines, fmt.Sprintf("%-7s", w.now.Sub(epoch).Round(time.Millisecond))+fmt.Sprintf(format,
		args...))
}

// settle plans and acts until nothing is to be done now; it returns when to look again.
func (w *simulation) settle() (wake time.Time) {
	for range 100 {
		in := w.planInput()
		if podplan.EffectiveTermination(in) != nil && w.facts.StopRequested.IsZero() {
			w.facts.StopRequested = w.now
			in = w.planInput()
		}
		_, doubtful := podplan.SandboxUncertain(in)
		if !doubtful {
			w.facts.UncertainSandbox = podplan.UncertainSandbox{}
		}
		if !w.facts.StopRequested.IsZero() && w.facts.ContainersStopped.IsZero() && !w.seen.Alive() && !doubtful {
			w.facts.ContainersStopped = w.now
			in = w.planInput()
		}
		p := podplan.Next(in)
		w.record(p)
		if len(p.Do) == 0 {
			if p.Done && !w.done {
				w.log("done")
			}
			w.done = p.Done
			return p.Wake
		}
		var did []string
		for _, a := range p.Do {
			did = append(did, a.Line())
		}
		w.log("%s", strings.Join(did, " · "))
		for _, a := range p.Do {
			if !w.perform(a) {
				break
			}
		}
	}
	w.log("DOES NOT SETTLE")
	return time.Time{}
}

func (w *simulation) record(p podplan.Plan) {
	reported := map[string]bool{}
	for _, f := range p.Facts {
		b, ok := f.(journal.BackingOff)
		if !ok {
			continue
		}
		line := fmt.Sprintf("%s waits: %s, wake %s", b.Container, b.Message, b.Until.Sub(epoch))
		reported[line] = true
		if !w.reported[line] {
			w.log("%s", line)
		}
	}
	w.reported = reported
}

// perform performs one action at once; false stops the plan.
func (w *simulation) perform(a podplan.Action) bool {
	if w.refused(a) {
		return false
	}
	switch a := a.(type) {
	case podplan.PrepareVolumes:
		w.facts.VolumesReady = w.now
	case podplan.Resize:
		for _, c := range a.Containers {
			w.applied = w.applied.With(c.Name, podplan.ResourcesOf(w.pod, c.Name))
		}
		if a.FinalizePodCgroup {
			w.applied = w.applied.With(podplan.PodResources, podplan.ResourcesOf(w.pod, podplan.PodResources))
		}
	case podplan.CreateSandbox:
		if w.abandons(a) {
			return false
		}
		w.serial++
		w.seen.Sandboxes = append(w.seen.Sandboxes, podplan.Sandbox{ID: fmt.Sprintf("s%d", w.serial),
			Attempt: a.Attempt, Ready: true, Created: w.now.Add(time.Duration(w.serial)), IPs: []string{"10.0.0.1"}})
	case podplan.StopSandbox:
		w.stopSandbox(a.ID)
	case podplan.RemoveSandbox:
		w.drop(a.ID)
	case podplan.Start:
		if !w.start(a) {
			return false
		}
	case podplan.Stop:
		w.stop(a)
	case podplan.RemoveContainer:
		w.drop(a.ID)
	case podplan.Release:
		w.facts.Released = w.now
		if a.Logs {
			w.facts.Removed = w.now
		}
	}
	w.seen.Sort()
	return true
}

// abandons reports whether nobody waits for this sandbox any more. While it is on its way its name
// is taken.
func (w *simulation) abandons(a podplan.CreateSandbox) bool {
	if w.lateSandbox.after == 0 && w.lateSandbox.at.IsZero() {
		return false
	}
	t := w.tries[podplan.SandboxTry]
	w.tries[podplan.SandboxTry] = podplan.Try{Refusal: &reason.Refusal{Code: "FailedCreatePodSandBox"},
		Count: t.Count + 1, FailedAt: w.now}
	if !w.lateSandbox.at.IsZero() {
		w.log("%s: its name is taken", a.Line())
		return true
	}
	w.log("%s: given up", a.Line())
	w.facts.UncertainSandbox = podplan.UncertainSandbox{Attempt: a.Attempt, AbandonedAt: w.now}
	if w.lateSandbox.after > 0 {
		w.lateSandbox.at, w.lateSandbox.attempt = w.now.Add(w.lateSandbox.after), a.Attempt
	}
	w.lateSandbox.after = 0
	return true
}

// revealSandbox lets a sandbox come that was given up.
func (w *simulation) revealSandbox() {
	if w.lateSandbox.at.IsZero() || w.lateSandbox.at.After(w.now) {
		return
	}
	w.log("! a sandbox comes that was given up")
	w.serial++
	w.seen.Sandboxes = append(w.seen.Sandboxes, podplan.Sandbox{ID: fmt.Sprintf("s%d", w.serial),
		Attempt: w.lateSandbox.attempt, Ready: true, Created: w.now.Add(time.Duration(w.serial))})
	w.seen.Sort()
	w.lateSandbox = lateSandbox{}
}

// refused reports whether a call that is no start fails now, and counts it as the worker does.
func (w *simulation) refused(a podplan.Action) bool {
	name := ""
	switch a.(type) {
	case podplan.CreateSandbox:
		name = podplan.SandboxTry
	case podplan.Stop, podplan.StopSandbox:
		name = podplan.StopTry
	case podplan.Resize:
		name = podplan.ResizeTry
	default:
		return false
	}
	f, bad := w.fails[name]
	if !bad || !w.now.Before(f.until) {
		delete(w.tries, name)
		return false
	}
	t := w.tries[name]
	w.tries[name] = podplan.Try{Refusal: &reason.Refusal{Code: f.code}, Count: t.Count + 1, FailedAt: w.now}
	w.log("%s: %s", a.Line(), f.code)
	return true
}

// resize gives a container other sizes, which the node has granted.
func (w *simulation) resize(name, cpu string) error {
	q, err := resource.ParseQuantity(cpu)
	if err != nil {
		return err
	}
	if w.applied == nil {
		w.applied = podplan.Applied{podplan.PodResources: podplan.ResourcesOf(w.pod, podplan.PodResources)}
		for _, m := range podplan.Members(w.pod) {
			w.applied[m.Name] = podplan.ResourcesOf(w.pod, m.Name)
		}
	}
	w.pod = w.pod.DeepCopy()
	for _, list := range [][]v1.Container{w.pod.Spec.InitContainers, w.pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				list[i].Resources.Requests = v1.ResourceList{v1.ResourceCPU: q}
			}
		}
	}
	w.log("! %s is resized to cpu %s", name, cpu)
	return nil
}

func (w *simulation) start(a podplan.Start) bool {
	if f, bad := w.fails[a.Name]; bad && w.now.Before(f.until) {
		t := w.tries[a.Name]
		w.tries[a.Name] = podplan.Try{Refusal: &reason.Refusal{Code: f.code}, Count: t.Count + 1,
			SeenAt: w.now, FailedAt: w.now}
		w.log("%s: %s", a.Name, f.code)
		return false
	}
	delete(w.tries, a.Name)
	w.serial++
	if w.applied != nil && a.Kind != podplan.Ephemeral {
		w.applied = w.applied.With(a.Name, podplan.ResourcesOf(w.pod, a.Name))
	}
	m, _ := podplan.MemberOf(w.pod, a.Name)
	w.seen.Containers = append(w.seen.Containers, podplan.Container{
		ID: fmt.Sprintf("c%d", w.serial), Name: a.Name, Sandbox: a.Sandbox, Attempt: a.Attempt, State: podplan.Running,
		Created: w.now, Started: w.now,
		Annotations: podplan.Annotations{Hash: podplan.Hash(m.Container), CrashDelay: a.CrashDelay},
	})
	return true
}

// stop ends containers wave by wave, in the time their scripts take. A wave begins when the lower
// ones are over, or when its grace is used up.
func (w *simulation) stop(a podplan.Stop) {
	begin := w.now
	over := map[int]time.Time{}
	kills := append([]podplan.Kill(nil), a.Kills...)
	sort.SliceStable(kills, func(i, j int) bool { return kills[i].Order < kills[j].Order })
	for _, k := range kills {
		at := begin
		for wave, t := range over {
			if wave < k.Order && t.After(at) {
				at = t
			}
		}
		if used := begin.Add(k.Grace); at.After(used) {
			at = used
		}
		took, code := w.scripts[k.Name].term, int32(0)
		if limit := max(begin.Add(k.Grace).Sub(at), 2*time.Second); took < 0 || took > limit {
			took, code = limit, 137
		}
		w.finish(k.ID, at.Add(took), code)
		w.markRestarting(k)
		if end := at.Add(took); end.After(over[k.Order]) {
			over[k.Order] = end
		}
		if at.Add(took).After(w.now) {
			w.now = at.Add(took)
		}
	}
	for _, k := range kills {
		for _, c := range w.seen.Containers {
			if c.ID == k.ID {
				w.lines = append(w.lines, fmt.Sprintf("%-7s%s exited %d", c.Finished.Sub(epoch), c.Name, c.Exit.Code))
			}
		}
	}
}

// markRestarting marks a container as the worker does.
func (w *simulation) markRestarting(k podplan.Kill) {
	for i := range w.seen.Containers {
		if c := &w.seen.Containers[i]; c.ID == k.ID {
			c.Restarting = k.Restart
		}
	}
}

func (w *simulation) finish(id string, at time.Time, code int32) {
	for i := range w.seen.Containers {
		if c := &w.seen.Containers[i]; c.ID == id && (c.State == podplan.Running || c.State == podplan.Unknown) {
			c.State, c.Finished, c.Exit = podplan.Exited, at, podplan.Exit{Code: code, Reason: "Error"}
		}
	}
}

func (w *simulation) stopSandbox(id string) {
	for i := range w.seen.Sandboxes {
		if w.seen.Sandboxes[i].ID == id {
			w.seen.Sandboxes[i].Ready = false
		}
	}
	for _, c := range w.seen.Containers {
		if c.Sandbox == id {
			w.finish(c.ID, w.now, 137)
		}
	}
}

func (w *simulation) drop(id string) {
	var containers []podplan.Container
	for _, c := range w.seen.Containers {
		if c.ID != id && c.Sandbox != id {
			containers = append(containers, c)
		}
	}
	var sandboxes []podplan.Sandbox
	for _, s := range w.seen.Sandboxes {
		if s.ID != id {
			sandboxes = append(sandboxes, s)
		}
	}
	w.seen.Containers, w.seen.Sandboxes = containers, sandboxes
}

// step lets time pass to the next thing that happens, until at the latest; it settles then.
func (w *simulation) step(until time.Time) {
	wake := w.settle()
	next := until
	if !wake.IsZero() && wake.Before(next) {
		next = wake
	}
	if at := w.lateSandbox.at; !at.IsZero() && at.Before(next) {
		next = at
	}
	for _, c := range w.seen.Containers {
		s := w.scripts[c.Name]
		if c.State != podplan.Running {
			continue
		}
		if at := c.Started.Add(s.after); s.after > 0 && at.Before(next) {
			next = at
		}
		if at := c.Started.Add(3 * time.Second); s.failedProbe != "" && at.After(w.now) && at.Before(next) {
			next = at
		}
	}
	if next.After(w.now) { // a stop may have taken longer
		w.now = next
	}
	w.revealSandbox()
	for _, c := range w.seen.Containers {
		s := w.scripts[c.Name]
		if at := c.Started.Add(s.after); c.State == podplan.Running && s.after > 0 && !at.After(w.now) {
			w.finish(c.ID, at, s.code)
			w.log("%s exited %d", c.Name, s.code)
		}
	}
}

// run lets time pass.
func (w *simulation) run(until time.Time) {
	for w.now.Before(until) {
		w.step(until)
	}
	w.settle()
}
