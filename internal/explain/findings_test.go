package explain

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// missingConfig is a Pod that is ready and names a ConfigMap that is not there.
func missingConfig() In {
	in := base()
	in.Pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "setings"}}}}
	in.Pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
		LastTransitionTime: at(-time.Hour)}}
	in.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(-time.Hour)}}).Ready = true
	in.Objects = &finding.Cluster{Now: t0}
	in.Objects.Add("Pod", in.Pod)
	in.Objects.Add("ConfigMap", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings"}})
	return in
}

// What is broken is never called well, and is there as data with object, field, value and what
// would do; the text has it too.
func TestNothingIsCalledWellWhileSomethingIsBroken(t *testing.T) {
	a := Why(missingConfig())
	raw, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var data struct {
		Code     string
		Findings []finding.Finding
	}
	if err := json.Unmarshal(raw, &data); err != nil {
		t.Fatal(err)
	}
	if len(data.Findings) != 1 {
		t.Fatalf("got %s, want one finding", raw)
	}
	f := data.Findings[0]
	if f.Code != "ReferenceMissing" || f.Object.Name != "web" || f.Value != "setings" || f.Want != "settings" ||
		f.Field != "spec.containers[0].envFrom[0].configMapRef" || f.Severity != finding.Broken {
		t.Errorf("got %+v, want the reference with its near name", f)
	}
	if strings.Contains(a.Cause, "nothing blocks it") || !strings.Contains(a.Cause, "setings") {
		t.Errorf("got cause %q, want the missing ConfigMap", a.Cause)
	}
}

// Two causes are both told in the cause, the one that is mended first before the other, each with
// its
// remedies once.
func TestSeveralCausesAreAllGiven(t *testing.T) {
	in := missingConfig()
	in.Pod.Status.Conditions = nil
	in.state(waiting("ImagePullBackOff", "not found"))
	a := Why(in)
	var out bytes.Buffer
	if err := a.WriteText(&out, t0); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "registry.test/web:1.4.3") || !strings.Contains(text,
		"ImagePullBackOff). Pod web names ConfigMap setings") {
		t.Errorf("got\n%s\nwant both causes", text)
	}
	if len(a.Findings) != 2 || a.Findings[0].Code != "ImagePullBackOff" {
		t.Errorf("got %+v, want the image before the environment", a.Findings)
	}
}

// One missing object that three Deployments name is one cause of an overview, which says whom it
// explains; notes are not counted.
func TestAnOverviewTellsASharedCauseOnce(t *testing.T) {
	var found []finding.Finding
	for _, name := range []string{"a", "b", "c"} {
		found = append(found, finding.Finding{Code: "ReferenceMissing", Object: finding.Object{Kind: "Deployment",
			Namespace: "shop", Name: name}, Field: "spec." + name, Value: "settings",
			Related: []finding.Object{{Kind: "ConfigMap", Namespace: "shop", Name: "settings"}}, Message: "M."})
	}
	found = append(found, finding.Finding{Code: "Tainted", Severity: finding.Note, Object: finding.Object{Kind: "Node",
		Name: "n1"}, Message: "taint"})
	o := NewOverview("namespace shop", found, nil)
	var out bytes.Buffer
	if err := o.WriteText(&out, t0); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{"1 things are broken and 0 will be", "deployment/a -n shop: M.",
		"this also explains deployment/b -n shop and deployment/c -n shop", "? gantry why deployment/a -n shop"} {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant %q", text, want)
		}
	}
	if strings.Contains(text, "taint") {
		t.Errorf("got\n%s\nwant no note", text)
	}
}

// Pods of several owners that fail in the same way are causes of their own, unless they share what
// they fail of; what follows from a Pod's trouble is said with it.
func TestAnOverviewKeepsCausesApart(t *testing.T) {
	answer := func(pod, code, field, value, shared string) PodAnswer {
		o := finding.Object{Kind: "Pod", Namespace: "shop", Name: pod}
		return PodAnswer{Owner: finding.Object{Kind: "Deployment", Namespace: "shop", Name: pod[:1]},
			Answer: Answer{Subject: "pod/" + pod + " in shop", State: code, Code: "x", Cause: pod + " fails.",
				shared: shared, Facts: []string{saidPrefix + pod + " says so"},
				Findings: []finding.Finding{{Code: code, Object: o, Field: field, Value: value,
					Remedies: []finding.Remedy{{Say: "first"}}}},
				Fixes: []Fix{{Description: "or mend " + pod}, {Description: "or mend " + pod}}}}
	}
	service := finding.Object{Kind: "Service", Namespace: "shop", Name: "s"}
	pod := func(name string) finding.Object { return finding.Object{Kind: "Pod", Namespace: "shop", Name: name} }
	found := []finding.Finding{
		{Code: "NoReadyPods", Object: service, Related: []finding.Object{pod("a-1")}, Message: "no endpoints"},
		{Code: "ProgressDeadlineExceeded", Object: finding.Object{Kind: "Deployment", Namespace: "shop", Name: "b"},
			Message: "no progress"},
		{Code: "Warning", Object: finding.Object{Kind: "Deployment", Namespace: "shop", Name: "z"}, Message: "alone"},
	}
	asks := answer("e-1", "DependencyFails", "spec.containers[0].args[0]", "s", "")
	asks.Findings[0].Related = []finding.Object{service}
	well := answer("f-1", "ProbeFails", "spec.containers[0].readinessProbe", "", "")
	well.State, well.Findings = "Ready", nil
	starts := answer("g-1", "", "", "", "")
	starts.Code, starts.Findings = "starting", nil
	o := NewOverview("namespace shop", found, []PodAnswer{
		answer("a-1", "ContainerExited", "spec.containers[0]", "app", ""),
		answer("b-1", "ContainerExited", "spec.containers[0]", "app", ""),
		answer("c-1", "ErrImagePull", "spec.containers[0].image", "r.test/c", "registry r.test"),
		answer("d-1", "ErrImagePull", "spec.containers[0].image", "r.test/d", "registry r.test"),
		asks, well, starts})
	var got []string
	for _, c := range o.Causes {
		text := c.Object.Name + ":"
		for _, x := range c.Explains {
			text += " " + x.Name
		}
		got = append(got, text)
		if c.Object.Kind == "Pod" && c.Code == "ContainerExited" && (len(c.Remedies) != 1 ||
			c.Remedies[0].Say != "mend "+c.Object.Name || c.Said != saidPrefix+c.Object.Name+" says so") {
			t.Errorf("%s: got remedies %v and last words %q, want one, and its own words", c.Object.Name, c.Remedies,
				c.Said)
		}
	}
	want := []string{"a-1: s e-1", "b-1: b", "c-1: d-1", "z:", "g-1:"}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A start that took its time is taken apart: the largest part with the field that makes it long is
// in the cause; waiting is called so.
func TestASlowStartIsTakenApart(t *testing.T) {
	in := base()
	group := int64(1000)
	in.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(-21 * time.Second)}}).Ready =
		true
	in.Pod.CreationTimestamp = at(-100 * time.Second)
	in.Pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
	in.Pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{InitialDelaySeconds: 10, PeriodSeconds: 1}
	in.Pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
		LastTransitionTime: at(-10 * time.Second)}}
	in.fact(100*time.Second, "apiserver", journal.Written{Verb: "create"})
	in.fact(99*time.Second, "scheduler", journal.Bound{Node: "n1"})
	in.fact(25*time.Second, "kubelet", journal.VolumeReady{Volume: "data", Type: "persistentVolumeClaim",
		Took: journal.Took(70 * time.Second)})
	in.fact(23*time.Second, "kubelet", journal.Pulled{Image: "registry.test/web:1.4.3",
		Took: journal.Took(2 * time.Second)})
	in.fact(21*time.Second, "kubelet", journal.ContainerStarted{Container: "app"})
	a := Why(in)
	for _, want := range []string{
		"ready 1m30s after it was created, most of it for volume data (persistentVolumeClaim), 1m10s",
		"fsGroup 1000 is given to each file"} {
		if !strings.Contains(a.Cause, want) {
			t.Errorf("got cause %q, want %q", a.Cause, want)
		}
	}
	if facts := strings.Join(a.Facts, "\n"); !strings.Contains(facts,
		"initialDelaySeconds 10, in which nobody asks), 11s of "+
			"pure waiting") || !strings.Contains(facts, "pulling image registry.test/web:1.4.3, 2s") {
		t.Errorf("got facts\n%s", facts)
	}
	if len(a.Findings) != 1 || a.Findings[0].Field != "spec.securityContext.fsGroupChangePolicy" ||
		a.Findings[0].Numbers["volume data"] != "1m10s" {
		t.Errorf("got %+v, want the part with its field and time", a.Findings)
	}
}

// The end of a Pod that ignored TERM says how long it took and who was killed.
func TestASlowEndNamesWhoWasKilled(t *testing.T) {
	in := base()
	in.Pod = nil
	in.fact(40*time.Second, "apiserver", journal.Deleting{User: "anna", Grace: 30})
	in.fact(9*time.Second, "kubelet", journal.ContainerExited{Container: "app", ExitCode: 137})
	in.fact(8*time.Second, "apiserver", journal.Removed{})
	a := Why(in)
	if !strings.Contains(a.Cause,
		"Its end took 32s; container app did not end when it was asked to and was killed after the grace period of "+
			"30 s (exit code 137)") {
		t.Errorf("got cause %q, want how long its end took", a.Cause)
	}
}

// Durations print what is certain of them.
func TestDurationsAreNotRoundedAway(t *testing.T) {
	for d, want := range map[time.Duration]string{142 * time.Second: "2m22s", -time.Second: "0s",
		90 * time.Minute: "1h30m",
		50 * time.Hour:   "2d2h", 400 * time.Millisecond: "0s", time.Hour: "1h0m"} {
		if got := ago(d); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
}
