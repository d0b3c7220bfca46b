package podview

import (
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
	"github.com/gantry-project/gantry/internal/reason"
)

// View is what has been shown and reported of one Pod. The zero View is that of a Pod that its
// worker has just met. Nothing changes a View: Next returns another one.
type View struct {
	status *v1.PodStatus // the newest; nil before the first
	facts  podplan.Facts // at the last look
	health map[string]podplan.Health

	waiting  map[string]waiting                 // why containers do not run, by name
	failures map[string]failures                // of starts, by container name
	backOffs map[string]podstatus.WaitingReason // by name, at the last decision that was not to end the Pod
	killed   map[string]killed                  // containers that plans stop, by ID

	lastContainerKilled bool // the last plan that stopped containers stopped the Pod's last one for its health
	reported            reported
}

// reported is what must not be reported again.
type reported struct {
	plan  map[string]bool          // facts of the last plan, by their text
	backs map[string]backOffReport // the last events of back-offs, by container name
	waits map[string]bool          // what the Pod as a whole waited for
	exits map[string]bool          // containers that have ended, by ID
}

// waiting is why a container does not run, and of which container of its name that is said.
type waiting struct {
	podstatus.WaitingReason
	containerID string // empty: there was none yet
}

// Step is one thing that happened to the Pod's worker. The set is sealed: Waits, Decided,
// PlanStarted, Progressed, PlanEnded.
type Step interface {
	next(prev View) (View, []Fact)
}

// Fact is one thing to tell. The set is sealed: Journal, BackOff, WriteStatus.
type Fact interface{ fact() }

// Journal is a fact for the journal.
type Journal struct{ journal.Fact }

// BackOff is the event of a container that has to wait before it is started again.
type BackOff struct{ Container string }

// WriteStatus has the status written to the API.
type WriteStatus struct{ v1.PodStatus }

func (Journal) fact()     {}
func (BackOff) fact()     {}
func (WriteStatus) fact() {}

// Next returns what is shown after the step, and what to tell of it, in that order.
func Next(prev View, step Step) (View, []Fact) { return step.next(prev) }

// Look is one look at the Pod, and what its status says beside it.
type Look struct {
	In           podplan.In
	Refusal      *reason.Refusal // admission's; nil: let in, or not asked yet
	RunningHooks map[string]bool // containers whose postStart hook has not ended, by name
	Node         podstatus.Node
	Resizes      podstatus.ResizeStatus
	// allocatedResourcesStatus of containers that have devices, by name
	AllocatedResources map[string][]v1.ResourceStatus
	VolumeHealth       map[string][]v1.VolumeHealthCondition // what CSI drivers say of volumes, by name
	RecursiveReadOnly  bool                                  // podstatus.In has it
	// API is the status that the API has; nil: nobody reads the Pod's status, it is not written
	API *v1.PodStatus
}

// Waits is the step of a Pod that is not admitted yet, and waits for something.
type Waits struct {
	For, Next string
	Now       time.Time
}

func (s Waits) next(prev View) (View, []Fact) {
	if prev.reported.waits[s.For] {
		return prev, nil
	}
	out := prev
	out.reported.waits = with(prev.reported.waits, s.For, true)
	return out, []Fact{Journal{journal.Waiting{For: s.For, Since: s.Now, Next: s.Next}}}
}

// Decided is the step of a look on which a plan was made. Facts of the plan that the plan before
// had too are not reported again.
type Decided struct {
	Look
	Plan podplan.Plan
}

func (s Decided) next(prev View) (View, []Fact) {
	out := prev
	out.health = s.In.Health
	out = out.explainWaiting(s)
	out, facts := out.show(s.Look, prev.facts)
	out.facts = s.In.Facts
	out, news := out.reportPlan(s)
	return out, append(facts, news...)
}

// Progressed is the step of a look while a plan is carried out: nothing is decided.
type Progressed struct{ Look }

func (s Progressed) next(prev View) (View, []Fact) {
	s.In = prev.maskRestarting(s.Look)
	if podplan.EffectiveTermination(s.In) != nil && !s.In.Observed.Alive() {
		return prev, nil // the last status follows at once
	}
	out := prev
	out.waiting = maps.Clone(prev.waiting)
	for name, why := range out.waiting {
		if c := s.In.Observed.Latest(name); c != nil && c.ID != why.containerID && c.State != podplan.Created &&
			!s.RunningHooks[name] {
			delete(out.waiting, name) // that was said of the container before
		}
	}
	return out.show(s.Look, prev.facts)
}

// show derives the status, and tells what changed. before is what was true at the last look: a Pod
// of which this very look finds that its last containers ended by themselves shows them ended
// before its sandbox is stopped, one whose containers the kubelet stopped shows them ended before
// it shows its last phase.
func (v View) show(l Look, before podplan.Facts) (View, []Fact) {
	in := l.In
	v, facts := v.reportExits(l)
	if in.Facts.Stage() == podplan.Waiting && in.End == nil && l.Refusal == nil {
		return v, facts // nothing is known yet
	}
	end := podplan.EffectiveTermination(in)
	if end == nil && v.restartsAll(in) {
		return v, facts
	}
	shown := in.Facts
	if before.ContainersStopped.IsZero() && (v.lastContainerKilled || endedByNode(in)) {
		shown.ContainersStopped = time.Time{}
	}
	s := podstatus.Generate(podstatus.In{
		Pod: in.Pod, Observed: in.Observed, Facts: shown, End: end, Health: in.Health, Waiting: v.waitingReasons(),
		BackOffs: v.interruptedBackOffs(in), RunningHooks: l.RunningHooks, Refusal: l.Refusal,
		Node: l.Node, Now: in.Now, Resizes: l.Resizes, AllocatedResources: l.AllocatedResources,
		VolumeHealth: l.VolumeHealth, RecursiveReadOnly: l.RecursiveReadOnly,
	})
	facts = append(facts, statusChanges(in.Pod.Status, s)...)
	changed := v.status == nil || !equality.Semantic.DeepEqual(*v.status, s)
	v.status = &s
	endedByItself := before.StopRequested.IsZero() && !in.Facts.StopRequested.IsZero() && end != nil &&
		end.Cause == podplan.Finished && !v.lastContainerKilled
	if end != nil && !endedByItself && in.Facts.ContainersStopped.IsZero() && !anyAlive(in.Observed) {
		return v, facts // all but the sandbox has been stopped: the last status follows at once
	}
	if l.API != nil && (changed || !equality.Semantic.DeepEqual(*l.API, s)) {
		facts = append(facts, WriteStatus{s})
	}
	return v, facts
}

// restartsAll tells whether the Pod is being started over and shown so: until the last record is
// gone its containers are shown as they were when that began, then all at once as removed. So does
// upstream, which shows nothing in between.
func (v View) restartsAll(in podplan.In) bool {
	return v.status != nil && podstatus.RestartingAll(*v.status) && podplan.RestartingAll(in.Pod, in.Observed)
}

// anyAlive tells whether a container has not ended, or none was ever seen.
func anyAlive(seen podplan.Observed) bool {
	for _, c := range seen.Containers {
		if c.State != podplan.Exited {
			return true
		}
	}
	return len(seen.Containers) == 0
}

// endedByNode tells whether a Pod whose work is done had sidecars that the kubelet stopped.
func endedByNode(in podplan.In) bool {
	in.Facts.ContainersStopped = time.Time{} // why it ended, not that it did
	end := podplan.EffectiveTermination(in)
	if end == nil || end.Cause != podplan.Finished {
		return false
	}
	for _, m := range podplan.Members(in.Pod) {
		if m.Kind == podplan.Sidecar && in.Observed.Latest(m.Name) != nil {
			return true
		}
	}
	return false
}

// with is a copy of m with one more entry.
func with[K comparable, V any](m map[K]V, key K, value V) map[K]V {
	out := make(map[K]V, len(m)+1)
	maps.Copy(out, m)
	out[key] = value
	return out
}

// without is a copy of m without one entry.
func without[K comparable, V any](m map[K]V, key K) map[K]V {
	out := maps.Clone(m)
	delete(out, key)
	return out
}
