package podplan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/reason"
	"github.com/gantry-project/gantry/test/wrappers"
)

func policy(p v1.ContainerRestartPolicy) *v1.ContainerRestartPolicy { return &p }

func rule(action v1.ContainerRestartRuleAction, op v1.ContainerRestartRuleOnExitCodesOperator,
	codes ...int32) v1.ContainerRestartRule {
	return v1.ContainerRestartRule{Action: action, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: op,
		Values: codes}}
}

// https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy, KEP-5307
//
// row: RST-02
// row: RST-03
// row: RST-04
// row: ISE-21
func TestRestartPolicyDecides(t *testing.T) {
	again := v1.ContainerRestartRuleActionRestart
	in, notIn := v1.ContainerRestartRuleOnExitCodesOpIn, v1.ContainerRestartRuleOnExitCodesOpNotIn
	for _, x := range []struct {
		what                     string
		kind                     podplan.Kind
		own                      *v1.ContainerRestartPolicy
		rules                    []v1.ContainerRestartRule
		always, onFailure, never string // after exit codes 0, 1, 42: y or n each
	}{
		{"app", podplan.App, nil, nil, "yyy", "nyy", "nnn"},
		{"init", podplan.Init, nil, nil, "nyy", "nyy", "nnn"},
		{"sidecar", podplan.Sidecar, policy(v1.ContainerRestartPolicyAlways), nil, "yyy", "yyy", "yyy"},
		{"ephemeral", podplan.Ephemeral, nil, nil, "nnn", "nnn", "nnn"},
		{"app, own Never", podplan.App, policy(v1.ContainerRestartPolicyNever), nil, "nnn", "nnn", "nnn"},
		{"app, own OnFailure", podplan.App, policy(v1.ContainerRestartPolicyOnFailure), nil, "nyy", "nyy", "nyy"},
		{"app, own Always", podplan.App, policy(v1.ContainerRestartPolicyAlways), nil, "yyy", "yyy", "yyy"},
		{"init, own Never", podplan.Init, policy(v1.ContainerRestartPolicyNever), nil, "nnn", "nnn", "nnn"},
		{"app, own Never, restart on 42", podplan.App, policy(v1.ContainerRestartPolicyNever),
			[]v1.ContainerRestartRule{rule(again, in, 42)}, "nny", "nny", "nny"},
		{"app, own Never, restart but on 0, 1", podplan.App, policy(v1.ContainerRestartPolicyNever),
			[]v1.ContainerRestartRule{rule(again, notIn, 0, 1)}, "nny", "nny", "nny"},
		{"app, two rules", podplan.App, policy(v1.ContainerRestartPolicyNever),
			[]v1.ContainerRestartRule{rule(again, in, 7), rule(again, in, 1)}, "nyn", "nyn", "nyn"},
		{"init, own Never, restart on 1", podplan.Init, policy(v1.ContainerRestartPolicyNever),
			[]v1.ContainerRestartRule{rule(again, in, 1)}, "nyn", "nyn", "nyn"},
	} {
		m := podplan.Member{Container: &v1.Container{Name: "c", RestartPolicy: x.own, RestartPolicyRules: x.rules},
			Kind: x.kind}
		for p, want := range map[v1.RestartPolicy]string{v1.RestartPolicyAlways: x.always,
			v1.RestartPolicyOnFailure: x.onFailure, v1.RestartPolicyNever: x.never} {
			got := ""
			for _, code := range []int32{0, 1, 42} {
				if podplan.ShouldRestart(&v1.Pod{Spec: v1.PodSpec{RestartPolicy: p}}, m, code) {
					got += "y"
				} else {
					got += "n"
				}
			}
			if got != want {
				t.Errorf("%s in a Pod with %s: %s after 0, 1, 42, want %s", x.what, p, got, want)
			}
			if x.rules != nil {
				continue
			}
			for _, code := range []int32{2, 125, 126, 127, 128, 137, 139, 143, 255, -1} { // one failure is as another
				got := podplan.ShouldRestart(&v1.Pod{Spec: v1.PodSpec{RestartPolicy: p}}, m, code)
				if got != (want[1] == 'y') {
					t.Errorf("%s in a Pod with %s: %v after %d, want the same as after 1", x.what, p, got, code)
				}
			}
		}
	}
}

// observedFrom reads "name=state …": run, 0 (ended with it), 1, made, lost. All are in sandbox s0,
// which is ready unless "dead" is among the words.
func observedFrom(text string) podplan.Observed {
	o := podplan.Observed{Sandboxes: []podplan.Sandbox{{ID: "s0", Ready: true}}}
	for _, word := range strings.Fields(text) {
		name, state, _ := strings.Cut(word, "=")
		c := podplan.Container{ID: name + "-0", Name: name, Sandbox: "s0"}
		switch state {
		case "run":
			c.State = podplan.Running
		case "lost":
			c.State = podplan.Unknown
		case "made":
			c.State = podplan.Created
		case "":
			o.Sandboxes[0].Ready = false
			continue
		default:
			c.State = podplan.Exited
			_, _ = fmt.Sscan(state, &c.Exit.Code) // the table's own numbers
		}
		o.Containers = append(o.Containers, c)
	}
	o.Sort()
	return o
}

// testPod has an init container i, a sidecar s and app containers a and b.
func testPod(p v1.RestartPolicy) *v1.Pod {
	return wrappers.MakePod().RestartPolicy(p).
		InitContainers(v1.Container{Name: "i"},
			v1.Container{Name: "s", RestartPolicy: policy(v1.ContainerRestartPolicyAlways)}).
		Containers(v1.Container{Name: "a"}, v1.Container{Name: "b"}).Obj()
}

// row: RST-05
// row: ISE-22
func TestFinalPhase(t *testing.T) {
	never, onFailure, always := v1.RestartPolicyNever, v1.RestartPolicyOnFailure, v1.RestartPolicyAlways
	for _, x := range []struct {
		policy v1.RestartPolicy
		seen   string
		want   v1.PodPhase // empty: not yet
	}{
		{never, "", ""},
		{never, "i=0 s=run", ""},
		{never, "i=1", v1.PodFailed},
		{onFailure, "i=1", ""},
		{always, "i=1", ""},
		{never, "i=0 s=run a=run b=0", ""},
		{never, "i=0 s=run a=0", ""}, // b has not been made yet
		{never, "i=0 s=run a=0 b=0", v1.PodSucceeded},
		{never, "i=0 s=run a=0 b=3", v1.PodFailed},
		{never, "i=0 s=run a=137 b=0", v1.PodFailed},
		{onFailure, "i=0 s=run a=0 b=0", v1.PodSucceeded},
		{onFailure, "i=0 s=run a=0 b=3", ""},
		{always, "i=0 s=run a=0 b=0", ""},
		{never, "i=0 s=1 a=0 b=0", v1.PodSucceeded}, // how a sidecar ends is not asked
		{never, "a=0 b=0", v1.PodSucceeded},         // the record of the init container is lost
		{never, "i=0 s=run a=0 b=lost", ""},
		{never, "i=0 s=run a=0 b=made", ""},
		{never, "i=0 s=run j=0 k=137", v1.PodFailed}, // the last of several
		{never, "i=0 s=run j=137", v1.PodFailed},     // one between
		{never, "i=0 s=run j=run", ""},
		{onFailure, "i=0 s=run j=137", ""},
		{always, "i=0 s=run j=0 k=137", ""},
	} {
		in := podplan.In{Pod: testPod(x.policy)}
		if strings.Contains(x.seen, "j=") {
			moreInits(&in)
		}
		phase, done := podplan.Outcome(in.Pod, observedFrom(x.seen))
		if done != (x.want != "") || done && phase != x.want {
			t.Errorf("%s, %q: %q %v, want %q", x.policy, x.seen, phase, done, x.want)
		}
	}
}

// row: ISE-02
func TestInitializationIsDone(t *testing.T) {
	for _, x := range []struct {
		seen    string
		started bool
		want    bool
	}{
		{"", true, false}, {"i=run", true, false}, {"i=1", true, false}, {"i=0", true, false},
		{"i=0 s=run", false, false}, {"i=0 s=run", true, true}, {"i=0 s=1", true, false},
		{"i=1 s=run", true, false}, {"i=run s=run", true, false}, {"s=run", true, false},
		{"a=made", false, true}, // an app container was created: initialization had been done
	} {
		health := map[string]podplan.Health{"s": {Started: x.started}}
		if got := podplan.Initialized(testPod(v1.RestartPolicyAlways), observedFrom(x.seen), "s0",
			health); got != x.want {
			t.Errorf("%q, sidecar started %v: %v", x.seen, x.started, got)
		}
	}
}

// What one look leads to: a row per rule of Next.
//
// row: PWK-06
// row: PWK-14
// row: PWK-15
// row: PWK-16
// row: PWK-17
// row: PWK-19
// row: PWK-20
// row: PWK-21
// row: PWK-22
// row: KSL-31
func TestNext(t *testing.T) {
	at := time.Unix(1000, 0)
	refusal := map[string]podplan.Try{podplan.SandboxTry: {Count: 2, FailedAt: at}}
	for _, x := range []struct {
		rule, seen string
		change     func(*podplan.In)
		do         string
	}{
		{"nothing before it is accepted", "dead", func(in *podplan.In) { in.Facts = podplan.Facts{} }, ""},
		{"furnish first",
			"dead", func(in *podplan.In) { in.Facts.VolumesReady, in.Observed = time.Time{}, podplan.Observed{} },
			"furnish; create sandbox"},
		{"then a sandbox", "", func(in *podplan.In) { in.Observed = podplan.Observed{} }, "create sandbox"},
		{"a sandbox that cannot be made is put off", "",
			func(in *podplan.In) { in.Observed, in.Tries = podplan.Observed{}, refusal }, ""},
		{"first the init container", "", nil, "start init i"},
		{"then the sidecar", "i=0", nil, "start sidecar s"},
		{"a sidecar that has not started holds the others up", "i=0 s=run", func(in *podplan.In) { in.Health = nil },
			""},
		{"of more init containers after it none is begun before", "i=0 s=run", func(in *podplan.In) {
			moreInits(in)
			in.Health = nil
		}, ""},
		{"then the next of them, and no other", "i=0 s=run", moreInits, "start init j"},
		{"while that runs, nothing", "i=0 s=run j=run", moreInits, ""},
		{"then the one after it", "i=0 s=run j=0", moreInits, "start init k"},
		{"then all app containers", "i=0 s=run", nil, "start a; start b"},
		{"of three app containers the one that does not run", "i=0 s=run a=run b=run", addContainer("c"), "start c"},
		{"and the one whose start failed does not hold it up", "i=0 s=run a=run", func(in *podplan.In) {
			addContainer("c")(in)
			in.Tries = map[string]podplan.Try{"b": {Count: 2, FailedAt: at,
				Refusal: &reason.Refusal{Code: reason.ErrImagePull}}}
		}, "start c"},
		{"a container made by a kubelet that died is made again", "i=0 s=run a=made b=run", nil,
			"remove container a a-0; start a"},
		{"a settled Pod is left alone", "i=0 s=run a=run b=run", nil, ""},
		{"a settled Pod that has had a sandbox before is left alone", "i=0 s=run a=run b=run", hadSandbox, ""},
		{"and one whose containers were restarted", "i=0 s=run a=run b=run", func(in *podplan.In) {
			in.Observed.Latest("a").Attempt = 1
			in.Observed.Containers = append(in.Observed.Containers, podplan.Container{ID: "a-before", Name: "a",
				Sandbox: "s0", State: podplan.Exited})
		}, ""},
		{"a dead sandbox is left, and a new one made", "i=0 s=0 a=0 b=0 dead", nil,
			"stop sandbox s0; create sandbox (attempt 1)"},
		{"what lives in a dead sandbox is stopped first", "i=0 s=run a=0 b=0 dead", nil,
			"stop s grace 30s: sandbox changed; stop sandbox s0; create sandbox (attempt 1)"},
		{"a state nobody knows is ended", "i=0 s=run a=run b=lost", nil,
			"stop b grace 30s: unknown state; start b (restart 1)"},
		{"that of an init container too", "i=lost", nil, "stop i grace 30s: unknown state; start init i (restart 1)"},
		{"a sick container is replaced", "i=0 s=run a=run b=run",
			func(in *podplan.In) { in.Health["b"] = podplan.Health{FailedProbe: "liveness"} },
			"stop b grace 30s: liveness probe failed; start b (restart 1)"},
		{"one that does not start is too", "i=0 s=run a=run b=run",
			func(in *podplan.In) { in.Health["b"] = podplan.Health{FailedProbe: "startup"} },
			"stop b grace 30s: startup probe failed; start b (restart 1)"},
		{"a changed image is put in", "i=0 s=run a=run b=run",
			func(in *podplan.In) { in.Observed.Latest("a").Annotations.Hash = "other" },
			"stop a grace 30s: changed; start a (restart 1)"},
		{"all that changed are replaced at once", "i=0 s=run a=run b=run", func(in *podplan.In) {
			in.Observed.Latest("a").Annotations.Hash, in.Observed.Latest("b").Annotations.Hash = "other", "other"
		}, "stop a grace 30s, b grace 30s: changed; start a (restart 1); start b (restart 1)"},
		// row: ISE-10
		{"an init container's is not, once it has run", "i=0 s=run a=run b=run",
			func(in *podplan.In) { in.Observed.Latest("i").Annotations.Hash = "other" }, ""},
		{"a Pod that has to go is stopped", "i=0 s=run a=run b=run", func(in *podplan.In) {
			in.End = &podplan.Termination{Cause: "deleted", RequestedAt: at, Grace: 5 * time.Second}
		}, "stop a grace 5s, b grace 5s, s grace 5s wave 1: deleted"},
		{"its sandbox goes last", "i=0 s=0 a=0 b=0",
			func(in *podplan.In) { in.End = &podplan.Termination{Cause: "deleted", RequestedAt: at} },
			"stop sandbox s0"},
		{"and starts nothing any more",
			"dead", func(in *podplan.In) { in.End = &podplan.Termination{Cause: "deleted", RequestedAt: at} },
			"release"},
		{"a Pod that has ended is released though nobody removes it", "i=0 s=0 a=0 b=0 dead",
			func(in *podplan.In) { in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever }, "release"},
		{"all is removed when the API wants it gone", "a=0 dead", func(in *podplan.In) {
			in.End, in.Remove = &podplan.Termination{Cause: "deleted", RequestedAt: at}, true
		}, "remove container a a-0; remove sandbox s0; release with logs"},
	} {
		in := podplan.In{
			Pod: testPod(v1.RestartPolicyAlways), Observed: observedFrom(x.seen), Now: at,
			Facts:  podplan.Facts{Accepted: at, VolumesReady: at},
			Health: map[string]podplan.Health{"s": {Started: true}, "a": {Started: true}, "b": {Started: true}},
		}
		for i := range in.Observed.Containers {
			c := &in.Observed.Containers[i]
			if m, ok := podplan.MemberOf(in.Pod, c.Name); ok { // others come with the change
				c.Annotations.Hash = podplan.Hash(m.Container)
			}
		}
		if x.change != nil {
			x.change(&in)
		}
		var got []string
		for _, a := range podplan.Next(in).Do {
			got = append(got, a.Line())
		}
		if text := strings.Join(got, "; "); text != x.do {
			t.Errorf("%s: %q\nwant %q", x.rule, text, x.do)
		}
	}
}

// moreInits gives the Pod two more init containers, after its sidecar.
func moreInits(in *podplan.In) {
	in.Pod.Spec.InitContainers = append(in.Pod.Spec.InitContainers, v1.Container{Name: "j"}, v1.Container{Name: "k"})
}

// hadSandbox has the Pod in its second sandbox; the first one died, and a container that ended is
// in it.
func hadSandbox(in *podplan.In) {
	in.Observed.Sandboxes = append(in.Observed.Sandboxes, podplan.Sandbox{ID: "before"})
	in.Observed.Containers = append(in.Observed.Containers, podplan.Container{ID: "a-before", Name: "a",
		Sandbox: "before", State: podplan.Exited})
}

// addContainer gives the Pod one more app container.
func addContainer(name string) func(*podplan.In) {
	return func(in *podplan.In) {
		in.Pod.Spec.Containers = append(in.Pod.Spec.Containers, v1.Container{Name: name})
	}
}

// row: ISE-13
func TestEarlierDeadlineWins(t *testing.T) {
	at := time.Unix(1000, 0)
	p := testPod(v1.RestartPolicyAlways)
	p.Spec.ActiveDeadlineSeconds = new(int64(60))
	p.Spec.TerminationGracePeriodSeconds = new(int64(3))
	for _, x := range []struct {
		what  string
		after time.Duration
		end   *podplan.Termination
		cause string
		grace time.Duration
	}{
		{"nothing", 0, nil, "", 0},
		{"deadline", time.Minute, nil, "deadline exceeded", 3 * time.Second},
		{"deletion", 0, &podplan.Termination{Cause: "deleted", RequestedAt: at, Grace: 10 * time.Second},
			"deleted", 10 * time.Second},
		{"deletion, then the deadline with less grace", time.Minute,
			&podplan.Termination{Cause: "deleted", RequestedAt: at.Add(time.Minute), Grace: 10 * time.Second},
			"deleted", 3 * time.Second},
	} {
		in := podplan.In{Pod: p, Observed: observedFrom("i=0 s=run a=run b=run"), Now: at.Add(x.after),
			Facts: podplan.Facts{Accepted: at, VolumesReady: at}, End: x.end}
		end := podplan.EffectiveTermination(in)
		switch {
		case end == nil && x.cause == "":
		case end == nil || end.Cause != x.cause || end.Grace != x.grace:
			t.Errorf("%s: %+v, want %s with %s", x.what, end, x.cause, x.grace)
		}
	}
}

// The sandbox is made beside the volumes only while nothing has failed, nothing is there, and no
// volume is waited for.
//
// row: PWK-12
func TestSandboxBesideVolumes(t *testing.T) {
	vol := func(s v1.VolumeSource) v1.Volume { return v1.Volume{Name: "v", VolumeSource: s} }
	token := v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}}
	bundle := v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Path: "ca"}}
	for _, c := range []struct {
		what   string
		volume v1.VolumeSource
		change func(*podplan.In)
		want   string
	}{
		{what: "a token",
			volume: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{token}}},
			want:   "furnish, create sandbox"},
		{what: "a ConfigMap", volume: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}},
			want: "furnish, create sandbox"},
		{what: "a trust bundle",
			volume: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{token,
				bundle}}}, want: "furnish"},
		{what: "a claim", volume: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}},
			want: "furnish"},
		{what: "a directory of the host", volume: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{}},
			want: "furnish"},
		{what: "volume set-up has failed", volume: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}},
			want: "furnish",
			change: func(in *podplan.In) {
				in.Tries = map[string]podplan.Try{podplan.PrepareVolumesTry: {Count: 1}}
			}},
		{what: "a sandbox is there", volume: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}, want: "furnish",
			change: func(in *podplan.In) {
				in.Observed.Sandboxes = []podplan.Sandbox{{ID: "s", Ready: true}}
			}},
	} {
		in := podplan.In{
			Pod: &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}},
				Volumes: []v1.Volume{vol(c.volume)}}}, Now: time.Now()}
		in.Facts.Accepted = in.Now
		if c.change != nil {
			c.change(&in)
		}
		var got []string
		for _, a := range podplan.Next(in).Do {
			got = append(got, a.Line())
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s: %s, want %s", c.what, s, c.want)
		}
	}
}
