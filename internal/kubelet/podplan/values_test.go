package podplan_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/reason"
)

// Failures are counted by what failed, with the code of the action or that of the error.
func TestTriesCountFailures(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, c := range []struct {
		action podplan.Action
		name   string
		code   reason.Code
	}{
		{podplan.Start{Name: "c"}, "c", reason.CreateContainerError},
		{podplan.PrepareVolumes{}, podplan.PrepareVolumesTry, reason.FailedMount},
		{podplan.CreateSandbox{}, podplan.SandboxTry, reason.FailedCreatePodSandBox},
		{podplan.Stop{}, podplan.StopTry, reason.FailedStop},
		{podplan.StopSandbox{}, podplan.StopTry, reason.FailedStop},
		{podplan.Resize{}, podplan.ResizeTry, reason.ResizeError},
		{podplan.UnprepareResources{}, podplan.UnprepareTry, reason.FailedRelease},
		{podplan.Release{}, podplan.ReleaseTry, reason.FailedRelease},
		{podplan.RemoveContainer{}, podplan.ReleaseTry, reason.FailedRelease},
	} {
		tries := podplan.Tries{}
		refusal, news := tries.Failed(c.action, errors.New("no"), now, now)
		if !news || refusal.Code != c.code || refusal.By != "kubelet" || refusal.Detail != "no" || refusal.Err == nil {
			t.Errorf("%T: got %+v, news %v, want %s by the kubelet, as news", c.action, refusal, news, c.code)
		}
		if _, news := tries.Failed(c.action, errors.New("no"), now, now.Add(time.Second)); news {
			t.Errorf("%T: the same failure again is news", c.action)
		}
		if got := tries[c.name]; got.Count != 2 || !got.FailedAt.Equal(now.Add(time.Second)) || len(tries) != 1 {
			t.Errorf("%T: got %v, want two failures under %s", c.action, tries, c.name)
		}
		if _, news := tries.Failed(c.action, errors.New("another"), now, now); !news {
			t.Errorf("%T: another failure is no news", c.action)
		}
		tries.RetryAll()
		if got := tries[c.name]; got.Count != 3 || !got.FailedAt.IsZero() {
			t.Errorf("%T: got %v, want three failures, to be tried at once", c.action, got)
		}
		if got, want := podplan.IsContainerTry(c.name), c.name == "c"; got != want {
			t.Errorf("%s is a container's: got %v, want %v", c.name, got, want)
		}
		if tries.Succeeded(c.action); len(tries) != 0 {
			t.Errorf("%T: got %v after success, want nothing", c.action, tries)
		}
	}
	own := &reason.Refusal{Code: "Own", Detail: "d"}
	got, _ := podplan.Tries{}.Failed(podplan.Start{}, fmt.Errorf("around: %w", own), now, now)
	if got != own {
		t.Errorf("got %v, want the refusal that the error wraps", got)
	}
	for n, want := range map[int]time.Duration{1: time.Second, 2: 10 * time.Second, 9: 10 * time.Second} {
		if got := (podplan.Try{Count: n, FailedAt: now}).Next().Sub(now); got != want {
			t.Errorf("after %d failures: got %s, want %s", n, got, want)
		}
	}
}

// The hash stays from version to version, so that containers survive a change of kubelet.
//
// row: PWK-19
func TestHash(t *testing.T) {
	c := &v1.Container{Name: "c", Image: "nginx"}
	const want = "4611fea5"
	if got := podplan.Hash(c); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, other := range []v1.Container{{Name: "d", Image: "nginx"}, {Name: "c"}} {
		if podplan.Hash(&other) == want {
			t.Errorf("name %q, image %q: got the same hash, want another", other.Name, other.Image)
		}
	}
}

// row: PWK-06
func TestStages(t *testing.T) {
	at := time.Unix(1, 0)
	for want, f := range map[string]podplan.Facts{
		"Waiting": {}, "Preparing": {Accepted: at}, "Active": {Accepted: at, VolumesReady: at},
		"Stopping": {Accepted: at, VolumesReady: at, StopRequested: at},
		"Stopped":  {Refused: at, Released: at}, "Gone": {Released: at, Removed: at, Refused: at},
	} {
		if got := f.Stage().String(); got != want {
			t.Errorf("%+v: got %s, want %s", f, got, want)
		}
	}
}

func TestLines(t *testing.T) {
	p := podplan.Plan{Wake: time.Unix(1, 0), Do: []podplan.Action{podplan.UnprepareResources{}, podplan.Release{},
		podplan.Release{Logs: true}, podplan.Resize{}, podplan.Resize{FinalizePodCgroup: true},
		podplan.Resize{Containers: []podplan.ResizedContainer{{Name: "a"}, {Name: "b"}}},
		podplan.Start{Name: "c", Kind: podplan.Ephemeral}, podplan.Start{Name: "c", Attempt: 2},
		podplan.RemoveContainer{ID: "1", Name: "c"}, podplan.RemoveSandbox{ID: "s"}}}
	got := p.Fact()
	want := "[unprepare resources release release with logs widen the Pod resize the Pod resize a, b start " +
		"ephemeral c start c (restart 2) remove container c 1 remove sandbox s]"
	if s := fmt.Sprint(got.Actions); s != want || !got.WakeAt.Equal(p.Wake) {
		t.Errorf("got  %s at %v\nwant %s", s, got.WakeAt, want)
	}
}

func sizes(cpu string) v1.ResourceRequirements {
	return v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}
}

// What was applied takes the place of what the spec says, for what the Pod has.
func TestAppliedSizes(t *testing.T) {
	p := testPod(v1.RestartPolicyAlways)
	if got := (podplan.Applied{}).ApplyTo(p); got != p {
		t.Error("nothing applied: got another Pod, want the same")
	}
	if got := podplan.Applied(nil).ApplyTo(nil); got != nil {
		t.Errorf("no Pod: got %v, want none", got)
	}
	whole := sizes("4")
	p.Spec.Resources = &whole
	a := podplan.Applied{}.With("a", sizes("1")).With("gone", sizes("2")).With(podplan.PodResources, sizes("3"))
	got := a.ApplyTo(p)
	if c := got.Spec.Containers[0].Resources.Requests.Cpu().String(); c != "1" ||
		got.Spec.Resources.Requests.Cpu().String() != "3" || p.Spec.Resources.Requests.Cpu().String() != "4" {
		t.Errorf("got container %s and Pod %v, want 1 and 3, and the Pod given as it was", c, got.Spec.Resources)
	}
	p.Spec.Resources = nil
	if got := a.ApplyTo(p); got.Spec.Resources != nil {
		t.Errorf("a Pod without sizes of its own: got %v, want none", got.Spec.Resources)
	}
	before := podplan.Applied{"a": sizes("1")}
	after, was := before.With("a", sizes("2")), before["a"]
	if was.Requests.Cpu().String() != "1" || len(after) != 1 {
		t.Errorf("With changes its receiver: got %s of CPU and %d requests, want 1 and 1", was.Requests.Cpu(),
			len(after))
	}
	p.Spec.Containers[1].Resources = sizes("5")
	for name, want := range map[string]string{"b": "5", "none": "0", podplan.PodResources: "5"} {
		r := podplan.ResourcesOf(p, name)
		if got := r.Requests.Cpu().String(); got != want {
			t.Errorf("%s is to have: got %s, want %s", name, got, want)
		}
	}
	p.Spec.Resources = &whole
	if r := podplan.ResourcesOf(p, podplan.PodResources); r.Requests.Cpu().String() != "4" {
		t.Errorf("the Pod is to have: got %v, want what its spec says", r.Requests)
	}
}

// A Pod resizes while something that runs has other sizes than it was granted.
func TestResizing(t *testing.T) {
	p := testPod(v1.RestartPolicyAlways)
	p.Spec.Containers[0].Resources = sizes("2")
	memory := sizes("2")
	memory.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Mi")}
	whole := podplan.ResourcesOf(p, podplan.PodResources)
	for _, c := range []struct {
		name     string
		observed podplan.Observed
		applied  podplan.Applied
		want     bool
	}{
		{"nothing applied", observedFrom("a=run"), nil, false},
		{"as granted", observedFrom("a=run"), podplan.Applied{"a": sizes("2")}, false},
		{"less CPU", observedFrom("a=run"), podplan.Applied{"a": sizes("1")}, true},
		{"another limit", observedFrom("a=run"), podplan.Applied{"a": memory}, true},
		{"it has ended", observedFrom("a=0"), podplan.Applied{"a": sizes("1")}, false},
		{"another runs", observedFrom("b=run"), podplan.Applied{"a": sizes("1")}, false},
		{"no sandbox", podplan.Observed{}, podplan.Applied{podplan.PodResources: sizes("1")}, false},
		{"the Pod's cgroup", observedFrom(""), podplan.Applied{podplan.PodResources: sizes("1")}, true},
		{"the Pod's cgroup as granted", observedFrom(""), podplan.Applied{podplan.PodResources: whole}, false},
	} {
		if got := podplan.Resizing(podplan.In{Pod: p, Observed: c.observed, Applied: c.applied}); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// The order that decisions rely on: newest first.
func TestOrderOfWhatIsObserved(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	o := podplan.Observed{
		Sandboxes: []podplan.Sandbox{{ID: "s1", Attempt: 1, Created: at(5)}, {ID: "s2", Attempt: 2, Created: at(5)},
			{ID: "s3", Created: at(9)}, {ID: "s0", Attempt: 7, Created: at(1)}},
		Containers: []podplan.Container{{ID: "b0", Name: "b"}, {ID: "a1", Name: "a", Attempt: 1},
			{ID: "a2 old", Name: "a", Attempt: 2, Created: at(1)}, {ID: "a2", Name: "a", Attempt: 2, Created: at(2)},
			{ID: "c9", Name: "c", Attempt: 9}, {ID: "b3", Name: "b", Attempt: 3}},
	}
	o.Sort()
	got := ""
	for _, s := range o.Sandboxes {
		got += s.ID + " "
	}
	for _, c := range o.Containers {
		got += c.ID + " "
	}
	if want := "s3 s2 s1 s0 a2 a2 old a1 b3 b0 c9 "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for text, want := range map[string]bool{"a=run": true, "a=lost": true, "dead a=0": false, "a=0": true,
		"dead":        false,
		"dead a=made": false, "dead a=run": true} {
		if got := observedFrom(text).Alive(); got != want {
			t.Errorf("%s lives: got %v, want %v", text, got, want)
		}
	}
}

// A sandbox that was given up is awaited for ten seconds, unless it has come.
func TestUncertainSandboxes(t *testing.T) {
	given := time.Unix(1e9, 0)
	in := func(after time.Duration, attempts ...uint32) podplan.In {
		in := podplan.In{Pod: testPod(v1.RestartPolicyNever), Now: given.Add(after),
			End: &podplan.Termination{Cause: "deleted", RequestedAt: given},
			Facts: podplan.Facts{Accepted: given, ContainersStopped: given,
				UncertainSandbox: podplan.UncertainSandbox{Attempt: 2, AbandonedAt: given}}}
		for _, a := range attempts {
			in.Observed.Sandboxes = append(in.Observed.Sandboxes, podplan.Sandbox{ID: "s", Attempt: a})
		}
		return in
	}
	for _, c := range []struct {
		name string
		in   podplan.In
		want bool
	}{
		{"at once", in(0), true}, {"at last", in(10*time.Second - 1), true}, {"over", in(10 * time.Second), false},
		{"another came", in(0, 1), true}, {"it came", in(0, 1, 2), false},
	} {
		until, got := podplan.SandboxUncertain(c.in)
		if got != c.want || got && !until.Equal(given.Add(10*time.Second)) {
			t.Errorf("%s: got %v until %v, want %v", c.name, got, until, c.want)
		}
		p := podplan.Next(c.in)
		const line = "waits for the runtime to drop the sandbox it was making, or to have made it after all"
		waits := len(p.Do) == 0
		if waits != c.want || waits && (!p.Wake.Equal(given.Add(10*time.Second)) || len(p.Facts) != 1 ||
			p.Facts[0].Line() != line) {
			t.Errorf("%s: got plan %+v, want it to wait %v", c.name, p, c.want)
		}
	}
	none := in(0)
	none.Facts.UncertainSandbox = podplan.UncertainSandbox{}
	if _, got := podplan.SandboxUncertain(none); got {
		t.Error("no sandbox was given up: got doubt, want none")
	}
}

// Devices of claims are given back when nothing runs any more, before the rest.
func TestClaimsAreGivenBackFirst(t *testing.T) {
	now := time.Unix(1e9, 0)
	in := podplan.In{Pod: testPod(v1.RestartPolicyNever), Now: now, HoldsClaims: true,
		End:   &podplan.Termination{Cause: "deleted", RequestedAt: now},
		Facts: podplan.Facts{Accepted: now, ContainersStopped: now}, Tries: podplan.Tries{}}
	if got := fmt.Sprint(podplan.Next(in).Fact().Actions); got != "[unprepare resources]" {
		t.Errorf("got %s, want only the claims' devices given back", got)
	}
	in.Tries[podplan.UnprepareTry] = podplan.Try{Count: 1, FailedAt: now, Refusal: &reason.Refusal{}}
	if p := podplan.Next(in); len(p.Do) != 0 || !p.Wake.Equal(now.Add(time.Second)) {
		t.Errorf("a failure a moment ago: got %+v, want it tried again in a second", p)
	}
	in.HoldsClaims = false
	if got := fmt.Sprint(podplan.Next(in).Fact().Actions); got != "[release]" {
		t.Errorf("no claims: got %s, want the release", got)
	}
	in.Tries[podplan.ReleaseTry] = podplan.Try{Count: 2, FailedAt: now, Refusal: &reason.Refusal{}}
	if p := podplan.Next(in); len(p.Do) != 0 || !p.Wake.Equal(now.Add(10*time.Second)) || p.Done {
		t.Errorf("a release that failed twice: got %+v, want it tried again in ten seconds", p)
	}
}

// A Pod that the node refuses ends at once, without a deadline of its own.
func TestARefusedPodEnds(t *testing.T) {
	now := time.Unix(1e9, 0)
	in := podplan.In{Pod: testPod(v1.RestartPolicyNever), Now: now, Facts: podplan.Facts{Refused: now}}
	in.Pod.Spec.TerminationGracePeriodSeconds = new(int64(7))
	in.Pod.Spec.ActiveDeadlineSeconds = new(int64(0))
	if got := podplan.EffectiveTermination(in); got == nil || got.Cause != "refused" || got.Reason != "" ||
		got.Grace != 7*time.Second || !got.RequestedAt.Equal(now) {
		t.Errorf("got %+v, want it refused now, with its grace", got)
	}
	in.Facts = podplan.Facts{Accepted: now.Add(-time.Minute)}
	in.Pod.Spec.ActiveDeadlineSeconds = new(int64(61))
	if got := podplan.EffectiveTermination(in); got != nil {
		t.Errorf("a second before the deadline: got %+v, want none", got)
	}
	in.Pod.Status.StartTime = new(metav1.NewTime(now.Add(-61 * time.Second)))
	if got := podplan.EffectiveTermination(in); got == nil || got.Reason != podplan.DeadlineReason {
		t.Errorf("the deadline counts from the start: got %+v, want it over", got)
	}
}
