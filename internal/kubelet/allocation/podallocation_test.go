package allocation_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/admit"
	"github.com/gantry-project/gantry/internal/kubelet/allocation"
	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/kubelet/podactions"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
)

// scripted answers each resize with what the test sets, and keeps all that a Manager says.
type scripted struct {
	refusal          *reason.Refusal
	record           *podactions.AllocationRecord
	loadErr, saveErr error
	saved            int
	said             []string
	decided          []string // which Pods' resizes were decided, in order
}

func (s *scripted) Load(types.UID) (podactions.AllocationRecord, bool, error) {
	if s.record == nil {
		return podactions.AllocationRecord{}, false, s.loadErr
	}
	return *s.record, true, s.loadErr
}

func (s *scripted) Save(types.UID, podactions.AllocationRecord) error {
	s.saved++
	return s.saveErr
}

func (s *scripted) Event(_ runtime.Object, kind, reason, message string) {
	s.said = append(s.said, kind+" "+reason+": "+message)
}
func (s *scripted) Put(_ journal.Ref, f journal.Fact)  { s.said = append(s.said, "fact "+f.Line()) }
func (s *scripted) Wake()                              {}
func (s *scripted) PublishAllocation(_ pod.Allocation) {}

func (s *scripted) resize(r admit.Resize, _ []*v1.Pod) *reason.Refusal {
	s.decided = append(s.decided, r.Pod.Name)
	return s.refusal
}

func (s *scripted) manager() *allocation.Manager {
	m := allocation.New(allocation.Deps{Resize: s.resize, OtherPods: func(types.UID) []*v1.Pod { return nil }, Store: s,
		Events: events.New(s), Journal: s})
	m.SourcesReady()
	return m
}

func (s *scripted) take(t *testing.T, when string, want ...string) {
	t.Helper()
	if !slices.Equal(s.said, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", when, strings.Join(s.said, "\n"), strings.Join(want, "\n"))
	}
	s.said = nil
}

func list(cpu, memory string) v1.ResourceList {
	out := v1.ResourceList{}
	for name, q := range map[v1.ResourceName]string{v1.ResourceCPU: cpu, v1.ResourceMemory: memory} {
		if q != "" {
			out[name] = resource.MustParse(q)
		}
	}
	return out
}

func sizes(r v1.ResourceRequirements) string {
	text := func(l v1.ResourceList) string {
		out := ""
		for _, n := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, "disk"} {
			if q, ok := l[n]; ok {
				out += q.String()
			}
			out += "/"
		}
		return out
	}
	return text(r.Requests) + " " + text(r.Limits)
}

// What a kubelet that has started again takes for allocated, of a Pod without a record: cpu and
// memory of the containers that run, as their statuses show them, where the spec has them.
func TestWhatARestartedKubeletTakesFromAStatus(t *testing.T) {
	shown := &v1.ResourceRequirements{Requests: list("3", "3Gi"), Limits: list("4", "4Gi")}
	shown.Requests["disk"] = resource.MustParse("9")
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	spec := func() v1.ResourceRequirements {
		r := v1.ResourceRequirements{Requests: list("1", "1Gi"), Limits: list("2", "2Gi")}
		r.Requests["disk"] = resource.MustParse("1")
		return r
	}
	container := func(name string, r v1.ResourceRequirements) v1.Container {
		return v1.Container{Name: name, Resources: r}
	}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", Generation: 7}, Spec: v1.PodSpec{
		Containers: []v1.Container{container("runs", spec()), container("waits", spec()), container("silent", spec()),
			container("plain", v1.ResourceRequirements{})},
		InitContainers: []v1.Container{container("sidecar", spec())}}}
	p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "runs", State: running, Resources: shown},
		{Name: "waits", Resources: shown}, {Name: "silent", State: running},
		{Name: "plain", State: running, Resources: shown}, {Name: "other", State: running, Resources: shown}}
	p.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "sidecar", State: running, Resources: shown}}
	want := map[string]string{"runs": "3/3Gi/1/ 4/4Gi//", "waits": "1/1Gi/1/ 2/2Gi//", "silent": "1/1Gi/1/ 2/2Gi//",
		"plain": "/// ///", "sidecar": "3/3Gi/1/ 4/4Gi//"}
	for _, c := range []struct {
		name    string
		before  bool
		loadErr error
		want    map[string]string
	}{{"a restart", true, nil, want}, {"a record that cannot be read", true, errors.New("no disk"), want},
		{"a Pod that comes", false, nil, map[string]string{"runs": "1/1Gi/1/ 2/2Gi//", "waits": "1/1Gi/1/ 2/2Gi//",
			"silent": "1/1Gi/1/ 2/2Gi//", "plain": "/// ///", "sidecar": "1/1Gi/1/ 2/2Gi//"}}} {
		s := &scripted{loadErr: c.loadErr}
		z := s.manager().NewPod(journal.Ref{}, "u", s)
		if got := z.ApplyTo(p); got != p && !reflect.DeepEqual(got, p) {
			t.Errorf("%s: got another Pod before it is admitted, want the same", c.name)
		}
		z.Admitted(t.Context(), p, c.before)
		got := map[string]string{}
		for _, l := range [][]v1.Container{z.ApplyTo(p).Spec.Containers, z.ApplyTo(p).Spec.InitContainers} {
			for i := range l {
				got[l[i].Name] = sizes(l[i].Resources)
			}
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
		applied := map[string]string{}
		for name, r := range z.Applied() {
			if name != podplan.PodResources {
				applied[name] = sizes(r)
			}
		}
		if c.before && !reflect.DeepEqual(applied, c.want) || !c.before && len(applied) > 0 {
			t.Errorf("%s: got in force %v, want %v after a restart and nothing else", c.name, applied, c.want)
		}
		if _, ok := z.Applied()[podplan.PodResources]; !ok {
			t.Errorf("%s: got nothing in force for the whole Pod, want its sum", c.name)
		}
	}
}

// The Pod's own resources are taken from its status while it runs.
func TestPodLevelResourcesOfAStatus(t *testing.T) {
	for _, c := range []struct {
		phase       v1.PodPhase
		shown, spec bool
		want        string
	}{{v1.PodRunning, true, true, "3/3Gi// 2/4Gi//"}, {v1.PodPending, true, true, "1/1Gi// 2/2Gi//"},
		{v1.PodRunning, false, true, "1/1Gi// 2/2Gi//"}, {v1.PodRunning, true, false, ""}} {
		p := asking("1")
		p.Status.Phase = c.phase
		if c.spec {
			p.Spec.Resources = &v1.ResourceRequirements{Requests: list("1", "1Gi"), Limits: list("2", "2Gi")}
		}
		if c.shown {
			p.Status.Resources = &v1.ResourceRequirements{Requests: list("3", "3Gi"), Limits: list("", "4Gi")}
		}
		s := &scripted{}
		z := s.manager().NewPod(journal.Ref{}, "u", s)
		z.Admitted(t.Context(), p, true)
		got := ""
		if r := z.ApplyTo(p).Spec.Resources; r != nil {
			got = sizes(*r)
		}
		if got != c.want {
			t.Errorf("phase %s, shown %v, in the spec %v: got %q, want %q", c.phase, c.shown, c.spec, got, c.want)
		}
	}
}

// A record counts for more than the status; a resize that waited goes on to wait, silently.
func TestARestartDuringAResize(t *testing.T) {
	p := asking("1")
	p.Generation = 3
	at := metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue},
		{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: v1.PodReasonDeferred, Message: "full",
			ObservedGeneration: 3, LastTransitionTime: at}}
	record := podactions.AllocationRecord{Allocated: pod.AllocationOf(asking("5")), Generation: 2}
	s := &scripted{record: &record, refusal: &reason.Refusal{Code: reason.ResizeDeferred, Detail: "full"}}
	z := s.manager().NewPod(journal.Ref{}, "u", s)
	z.Admitted(t.Context(), p, true)
	if got := sizes(z.ApplyTo(p).Spec.Containers[0].Resources); got != "5/// ///" {
		t.Errorf("got %s, want what the record says, 5/// ///", got)
	}
	want := &podstatus.Resize{Reason: v1.PodReasonDeferred, Message: "full", Generation: 3}
	if got := z.Status(podplan.In{}).Pending; !reflect.DeepEqual(got, want) {
		t.Errorf("got pending %+v, want %+v", got, want)
	}
	in := podplan.In{Pod: z.ApplyTo(p), Now: at.Add(time.Hour), Applied: z.Applied()}
	if z.Sync(t.Context(), p, in) {
		t.Error("granted without room")
	}
	s.take(t, "it waits as before")
	s.refusal = nil
	if !z.Sync(t.Context(), p, in) || s.saved != 1 {
		t.Errorf("not granted with room, or saved %d times; want granted and saved once", s.saved)
	}
	s.take(t, "granted", "fact waits for its new size to be in force", `Normal ResizeStarted: Pod resize started: `+
		`{"containers":[{"name":"c","resources":{"requests":{"cpu":"1"}}}],"generation":3}`)
	if got := z.Status(podplan.In{}); got.Pending != nil || got.Running == nil || got.Running.Generation != 3 ||
		got.Running.Reason != "" {
		t.Errorf("got status %+v, want one that is under way at generation 3", got)
	}
	for name, c := range map[string]v1.PodCondition{
		"false":      {Type: v1.PodResizePending, Status: v1.ConditionFalse, Reason: v1.PodReasonDeferred},
		"of another": {Type: v1.PodResizeInProgress, Status: v1.ConditionTrue, Reason: v1.PodReasonError},
	} {
		p.Status.Conditions = []v1.PodCondition{c}
		z := s.manager().NewPod(journal.Ref{}, "u", s)
		z.Admitted(t.Context(), p, true)
		if got := z.Status(podplan.In{}).Pending; got != nil {
			t.Errorf("condition %s: got pending %+v, want none", name, got)
		}
	}
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: "Infeasible"}}
	z = s.manager().NewPod(journal.Ref{}, "u", s)
	z.Admitted(t.Context(), p, false)
	if got := z.Status(podplan.In{}).Pending; got != nil {
		t.Errorf("a Pod that comes: got pending %+v, want none", got)
	}
}

// Why a resize is refused is told once for each text and generation: what stands in the way, and
// what becomes of it.
func TestARefusedResizeIsReportedOnce(t *testing.T) {
	const object = `: {"containers":[{"name":"c","resources":{"requests":{"cpu":"2"}}}],"generation":1,"error":"full"}`
	s := &scripted{refusal: &reason.Refusal{Code: reason.ResizeDeferred, Detail: "full",
		Err: &reason.Refusal{Code: "OutOfcpu"}}}
	z := s.manager().NewPod(journal.Ref{}, "u", s)
	z.Admitted(t.Context(), asking("1"), false)
	wanted := asking("2")
	wanted.Generation = 1
	sync := func(p *v1.Pod) bool {
		return z.Sync(t.Context(), p, podplan.In{Pod: z.ApplyTo(p), Applied: z.Applied()})
	}
	pending := func(when string, want *podstatus.Resize) {
		t.Helper()
		if got := z.Status(podplan.In{}).Pending; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got pending %+v, want %+v", when, got, want)
		}
	}
	sync(wanted)
	s.take(t, "refused", "fact waits for its new size (Deferred): full",
		"Warning ResizeDeferred: Pod resize OutOfcpu"+object)
	pending("refused", &podstatus.Resize{Reason: "Deferred", Message: "full", Generation: 1})
	sync(wanted)
	s.take(t, "refused again")
	wanted.Generation = 2
	sync(wanted)
	s.take(t, "another generation", "fact waits for its new size (Deferred): full",
		"Warning ResizeDeferred: Pod resize OutOfcpu"+strings.Replace(object, `"generation":1`, `"generation":2`, 1))
	s.refusal = &reason.Refusal{Code: reason.ResizeInfeasible, Detail: "never", Err: errors.New("plain")}
	sync(wanted)
	s.take(t, "infeasible", "fact waits for its new size (Infeasible): never",
		"Warning ResizeInfeasible: Pod resize Infeasible"+
			strings.Replace(strings.Replace(object, `"generation":1`, `"generation":2`, 1), "full", "never", 1))
	pending("infeasible", &podstatus.Resize{Reason: "Infeasible", Message: "never", Generation: 2})
	s.decided = nil
	sync(asking("1"))
	s.take(t, "taken back")
	pending("taken back", nil)
	if len(s.decided) != 0 {
		t.Errorf("taken back: got decisions about %q, want none", s.decided)
	}
	sync(wanted)
	s.said, s.decided = nil, nil
	ending := podplan.In{Pod: wanted, End: &podplan.Termination{}}
	if z.Sync(t.Context(), wanted, ending) || len(s.decided) != 0 {
		t.Errorf("a Pod that ends: got decisions about %q, want none", s.decided)
	}
	stopping := podplan.In{Pod: wanted, Facts: podplan.Facts{StopRequested: time.Unix(1, 0)}}
	if z.Sync(t.Context(), wanted, stopping) || len(s.decided) != 0 {
		t.Errorf("a Pod that stops: got decisions about %q, want none", s.decided)
	}
	fresh := s.manager().NewPod(journal.Ref{}, "u", s)
	if fresh.Sync(t.Context(), wanted, podplan.In{Pod: wanted}) || len(s.decided) != 0 {
		t.Errorf("a Pod that is not admitted: got decisions about %q, want none", s.decided)
	}
}

// A size that cannot be kept over a restart is not given.
func TestASizeThatCannotBeKept(t *testing.T) {
	s := &scripted{saveErr: errors.New("no disk")}
	z := s.manager().NewPod(journal.Ref{}, "u", s)
	z.Admitted(t.Context(), asking("1"), false)
	if z.Sync(t.Context(), asking("2"), podplan.In{Pod: z.ApplyTo(asking("2")), Applied: z.Applied()}) {
		t.Error("granted, and not kept")
	}
	want := &podstatus.Resize{Reason: "Deferred", Message: "no disk"}
	if got := z.Status(podplan.In{}); !reflect.DeepEqual(got.Pending, want) || got.Running != nil {
		t.Errorf("got %+v, want pending %+v", got, want)
	}
	if got := sizes(z.ApplyTo(asking("2")).Spec.Containers[0].Resources); got != "1/// ///" {
		t.Errorf("got %s, want the size that it had, 1/// ///", got)
	}
}

// Waiting resizes are decided in their order, those that were granted no more, those of Pods that
// are forgotten not at all.
func TestWhichResizesAreDecided(t *testing.T) {
	s := &scripted{refusal: &reason.Refusal{Code: reason.ResizeDeferred, Detail: "full"}}
	m := s.manager()
	named := func(name, cpu string) *v1.Pod {
		p := asking(cpu)
		p.Name, p.UID = name, types.UID(name)
		return p
	}
	all := map[string]*allocation.PodAllocation{}
	for i, name := range []string{"a", "b"} {
		all[name] = m.NewPod(journal.Ref{}, types.UID(name), s)
		all[name].Admitted(t.Context(), named(name, "1"), false)
		all[name].Sync(t.Context(), named(name, "2"), podplan.In{Pod: named(name, "1"), Applied: all[name].Applied(),
			Now: time.Unix(int64(10-i), 0)})
	}
	decided := func(when string, do func(), want ...string) {
		t.Helper()
		s.decided = nil
		if do(); !slices.Equal(s.decided, want) {
			t.Errorf("%s: got decisions about %q, want %q", when, s.decided, want)
		}
	}
	decided("again", m.RetryPendingResizes, "b", "a")
	m.Forget("b")
	decided("b is gone", m.RetryPendingResizes, "a")
	s.refusal = nil
	decided("room", m.RetryPendingResizes, "a")
	decided("granted", m.RetryPendingResizes)
}

// What was put in force is written down once there is a record; a resize is over when all is in
// force, and an error is told when its words change, numbers aside.
func TestProgressOfAResize(t *testing.T) {
	s := &scripted{}
	z := s.manager().NewPod(journal.Ref{}, "u", s)
	small, large := asking("1"), asking("2")
	z.Actuated(small, []podplan.Action{podplan.Start{Name: "c"}})
	if z.Applied() != nil {
		t.Errorf("got %v in force of a Pod that is not admitted, want nothing", z.Applied())
	}
	z.Admitted(t.Context(), small, false)
	z.Actuated(small, []podplan.Action{podplan.Start{Name: "c"}, podplan.Start{Name: "e", Kind: podplan.Ephemeral}})
	if _, ok := z.Applied()["e"]; ok || sizes(z.Applied()["c"]) != "1/// ///" || s.saved != 0 {
		t.Errorf("got in force %v, saved %d times; want c alone, 0", z.Applied(), s.saved)
	}
	in := func() podplan.In {
		return podplan.In{Pod: z.ApplyTo(large), Applied: z.Applied(), Observed: podplan.Observed{
			Sandboxes:  []podplan.Sandbox{{ID: "s", Ready: true}},
			Containers: []podplan.Container{{ID: "c", Name: "c", Sandbox: "s", State: podplan.Running}}}}
	}
	if z.Progress(in()) {
		t.Error("a resize is over that was not asked for")
	}
	if !z.Sync(t.Context(), large, in()) {
		t.Fatal("not granted")
	}
	s.said = nil
	failing := func(detail string) podplan.In {
		out := in()
		out.Tries = podplan.Tries{podplan.ResizeTry: {Refusal: &reason.Refusal{Detail: detail}}}
		return out
	}
	told := func(detail string) string {
		return `Warning ResizeError: Pod resize error: {"containers":[{"name":"c","resources":{"requests":{"cpu":` +
			`"2"}}}],"generation":0,"error":"` + detail + `"}`
	}
	z.Progress(failing("8 in use"))
	s.take(t, "an error", told("8 in use"))
	z.Progress(failing("9 in use"))
	s.take(t, "another number")
	z.Progress(failing("9 in uses"))
	s.take(t, "other words", told("9 in uses"))
	want := &podstatus.Resize{Reason: v1.PodReasonError, Message: "9 in uses"}
	if got := z.Status(in()); !reflect.DeepEqual(got.Running, want) || !reflect.DeepEqual(got.Applied, z.Applied()) {
		t.Errorf("got %+v, want running %+v and what is in force", got, want)
	}
	saved := s.saved
	z.Actuated(in().Pod, nil)
	if s.saved != saved {
		t.Error("saved though nothing was done")
	}
	z.Actuated(in().Pod, []podplan.Action{podplan.Resize{Containers: []podplan.ResizedContainer{{Name: "c"}},
		FinalizePodCgroup: true}})
	if s.saved != saved+1 || sizes(z.Applied()["c"]) != "2/// ///" {
		t.Errorf("got %d writes and %s, want one more and 2/// ///", s.saved-saved, sizes(z.Applied()["c"]))
	}
	ending := in()
	ending.End = &podplan.Termination{}
	stopping := in()
	stopping.Facts.StopRequested = time.Unix(1, 0)
	if a, b := z.Progress(ending), z.Progress(stopping); a || b {
		t.Errorf("got over %v and %v for a Pod that ends, want false", a, b)
	}
	s.take(t, "it ends")
	if !z.Progress(in()) {
		t.Error("all is in force, and the resize is not over")
	}
	s.take(t, "over", `Normal ResizeCompleted: Pod resize completed: {"containers":[{"name":"c","resources":{`+
		`"requests":{"cpu":"2"}}}],"generation":0}`)
	if got := z.Status(in()); got.Running != nil || z.Progress(in()) {
		t.Errorf("got %+v after the resize, want nothing under way", got)
	}
}

// A kubelet that starts in the middle of a resize goes on with it.
func TestAResizeUnderWayAtARestart(t *testing.T) {
	for _, recorded := range []bool{true, false} {
		s := &scripted{}
		if recorded {
			s.record = &podactions.AllocationRecord{Allocated: pod.AllocationOf(asking("2")), Generation: 4,
				Applied: podplan.Applied{"c": asking("1").Spec.Containers[0].Resources}}
		}
		z := s.manager().NewPod(journal.Ref{}, "u", s)
		z.Admitted(context.Background(), asking("2"), true)
		in := podplan.In{Pod: z.ApplyTo(asking("2")), Applied: z.Applied(), Observed: podplan.Observed{
			Sandboxes:  []podplan.Sandbox{{ID: "s", Ready: true}},
			Containers: []podplan.Container{{ID: "c", Name: "c", Sandbox: "s", State: podplan.Running}}}}
		z.Progress(in)
		if got := z.Status(in).Running; (got != nil) != recorded || recorded && got.Generation != 4 {
			t.Errorf("recorded %v: got %+v, want a resize under way of generation 4 if there is a record", recorded,
				got)
		}
	}
}

// A Pod that is let in is reserved in its turn, after the Pods that have to go for it.
func TestAdmissionTakesItsTurn(t *testing.T) {
	victim, refusal := asking("1"), &reason.Refusal{Code: "OutOfcpu"}
	for _, c := range []struct {
		refusal *reason.Refusal
		want    []string
	}{{nil, []string{"others of u", "preempt p", "reserve"}}, {refusal, []string{"others of u", "preempt p"}}} {
		var order []string
		m := allocation.New(allocation.Deps{
			Admit: func(*v1.Pod, []*v1.Pod) ([]*v1.Pod, *reason.Refusal) { return []*v1.Pod{victim}, c.refusal },
			OtherPods: func(uid types.UID) []*v1.Pod {
				order = append(order, "others of "+string(uid))
				return nil
			}})
		got := m.Admit(asking("1"), func(v *v1.Pod) { order = append(order, "preempt "+v.Name) },
			func() { order = append(order, "reserve") })
		if got != c.refusal || !slices.Equal(order, c.want) {
			t.Errorf("got %v and %q, want %v and %q", got, order, c.refusal, c.want)
		}
		held := false
		if m.Hold(func() { held = true }); !held {
			t.Error("Hold does not run what it is given")
		}
	}
}
