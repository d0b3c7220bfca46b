package explain

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/explain/whatif"
	"github.com/gantry-project/gantry/internal/journal"
)

// A Pod that is being deleted is a victim of a nominated one when it runs yet, is of lower priority
// and has of what the node is short; where nothing that is counted is short, when it was asked to
// leave for it.
func TestVictims(t *testing.T) {
	leaving := func(name string, edit func(*corev1.Pod)) *corev1.Pod {
		gone := at(time.Minute)
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, DeletionTimestamp: &gone},
			Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{wants("a", "1")}}}
		if edit != nil {
			edit(p)
		}
		return p
	}
	high := int32(1000)
	in := base()
	in.Pod.Spec.NodeName, in.Pod.Spec.Priority = "", new(int32)
	*in.Pod.Spec.Priority = 100
	in.ClusterContext = &ClusterContext{Pods: []*corev1.Pod{
		leaving("holder", nil),
		leaving("asked", func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
				Reason: corev1.PodReasonPreemptionByScheduler}}
		}),
		leaving("ended", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		leaving("idle", func(p *corev1.Pod) { p.Spec.Containers = []corev1.Container{{Name: "a"}} }),
		leaving("higher", func(p *corev1.Pod) { p.Spec.Priority = &high }),
		leaving("elsewhere", func(p *corev1.Pod) { p.Spec.NodeName = "n2" }),
		leaving("stays", func(p *corev1.Pod) { p.DeletionTimestamp = nil }),
	}}
	short := func(name string) []journal.NodeRefusal {
		return []journal.NodeRefusal{{Node: "n1", Plugin: "NodeResourcesFit", Shortages: []journal.Shortage{
			{Resource: name, Requested: 1}}}}
	}
	for _, c := range []struct {
		name     string
		refusals []journal.NodeRefusal
		want     string
	}{
		{"short of cpu", short("cpu"), "holder asked"},
		{"too many Pods", short("pods"), "holder asked idle"},
		{"short of what nobody has", short("example.com/seat"), ""},
		{"a port", []journal.NodeRefusal{{Node: "n1", Plugin: "NodePorts"}}, "asked"},
	} {
		var got []string
		for _, p := range in.victims("n1", c.refusals) {
			got = append(got, p.Name)
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: got %q, want %q", c.name, text, c.want)
		}
	}
}

// Of nodes that the Pod's own nodeSelector rules out the cause says how many there are; those that
// it chooses are told with what they refuse it for.
func TestChosenNodesComeFirst(t *testing.T) {
	in := base()
	in.Pod.Spec.NodeName, in.Pod.Spec.NodeSelector = "", map[string]string{"pool": "web"}
	named := func(name, pool string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": pool}},
			Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized",
				Value: "true", Effect: corev1.TaintEffectNoSchedule}}}}
	}
	in.ClusterContext = &ClusterContext{}
	var refusals []journal.NodeRefusal
	for _, name := range []string{"a1", "a2", "a3", "a4", "a5"} {
		in.ClusterContext.Nodes = append(in.ClusterContext.Nodes, named(name, "batch"))
		refusals = append(refusals, journal.NodeRefusal{Node: name, Plugin: "NodeAffinity",
			Messages: []string{"node(s) didn't match Pod's node affinity/selector"}})
	}
	in.ClusterContext.Nodes = append(in.ClusterContext.Nodes, named("w1", "web"))
	refused := func(plugin, message, detail string) []journal.NodeRefusal {
		return append(slices.Clone(refusals), journal.NodeRefusal{Node: "w1", Plugin: plugin, Detail: detail,
			Messages: []string{message}})
	}
	for _, c := range []struct {
		name string
		all  []journal.NodeRefusal
		want string
	}{
		{"a port", refused("NodePorts", "no free ports", "host port 80 is taken by shop/old"),
			"No node fits. w1: no free ports (host port 80 is taken by shop/old). The other 5 nodes are ruled out " +
				"by its nodeSelector pool=web."},
		{"a component's taint", refused("TaintToleration", "untolerated taint(s)",
			"node.cloudprovider.kubernetes.io/uninitialized"),
			"No node fits. w1 has the taint node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule (as no " +
				"cloud controller manager has initialized the node) that the Pod does not tolerate. The other 5 " +
				"nodes are ruled out by its nodeSelector pool=web."},
		{"none is chosen", refusals,
			"No node fits. 5 nodes: node(s) didn't match Pod's node affinity/selector (a1, a2, a3, …)."},
	} {
		if got := noNodeText(c.all, in); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
		for _, f := range refusalFindings(in, c.all) {
			if note := f.Severity == finding.Note; note != (f.Code == "NodeAffinity" && len(c.all) > 5) {
				t.Errorf("%s: got severity %d of %s", c.name, f.Severity, f.Code)
			}
		}
	}
	fixes := in.managedTaintFixes(refused("TaintToleration", "untolerated taint(s)", ""))
	if len(fixes) != 1 || !strings.Contains(fixes[0].Description, "start the cloud controller manager") {
		t.Errorf("a component's taint: got fixes %v, want one that starts the component", fixes)
	}
}

// A cause that says only what has not happened gives way to the first finding of its stages that
// says why, whose remedies take the place of guesses.
func TestLeadWithCause(t *testing.T) {
	f := func(code string, stage finding.Stage, s finding.Severity) finding.Finding {
		return finding.Finding{Code: code, Stage: stage, Severity: s, Object: finding.Object{Kind: "X", Name: code},
			Message: code + " is why.", Remedies: []finding.Remedy{{Say: "mend " + code}}}
	}
	for _, c := range []struct {
		name  string
		state string
		at    []finding.Stage
		more  []finding.Finding
		want  string
	}{
		{"its stage", "", []finding.Stage{finding.StageCreation}, []finding.Finding{
			f("Other", finding.StageReference, finding.Broken), f("Mine", finding.StageCreation, finding.Broken)},
			"Mine"},
		{"only words", "", []finding.Stage{finding.StageCreation}, []finding.Finding{
			f("PodsRefused", finding.StageCreation, finding.Broken)}, ""},
		{"a threat", "", []finding.Stage{finding.StageCreation}, []finding.Finding{
			f("Threat", finding.StageCreation, finding.Threat)}, ""},
		{"a threat to a claim", "Pending", []finding.Stage{finding.StageVolume}, []finding.Finding{
			f("Threat", finding.StageVolume, finding.Threat)}, "Threat"},
		{"a cause that says why", "", nil, []finding.Finding{f("Mine", finding.StageCreation, finding.Broken)}, ""},
	} {
		a := Answer{State: c.state, Cause: "not yet", causedAt: c.at, Fixes: textFixes("guess")}
		a.leadWithCause(c.more)
		want, fix := "not yet", "guess"
		if c.want != "" {
			want, fix = c.want+" is why.", "mend "+c.want
		}
		if a.Cause != want || len(a.Fixes) != 1 || a.Fixes[0].Description != fix {
			t.Errorf("%s: got %q, %v, want %q, %q", c.name, a.Cause, a.Fixes, want, fix)
		}
	}
}

// What a class, a RuntimeClass or an admission policy sets stands before the nodes' refusals, and
// no remedy takes it off the Pod, where it would come back.
func TestWhatSetsPlacementLeads(t *testing.T) {
	drop, label := "drop kata=true from nodeSelector: it goes to n1", "label node n1 kata=true"
	a := Answer{Cause: noNodeFits + " n1: no label.", Fixes: []Fix{
		provenFix(whatif.Remedy{Description: drop, NodeLabels: []string{"kata=true"}}), {Description: label}}}
	leadWithReference(&a, []finding.Finding{{Code: "SetByAdmission", Severity: finding.Threat, Value: "kata=true",
		NodeLabels: []string{"kata=true"}, Object: finding.Object{Kind: "RuntimeClass", Name: "kata"},
		Message: "RuntimeClass kata sets kata=true."}})
	if want := "RuntimeClass kata sets kata=true. No node fits. n1: no label."; a.Cause != want {
		t.Errorf("got cause %q, want %q", a.Cause, want)
	}
	if len(a.Fixes) != 1 || a.Fixes[0].Description != label {
		t.Errorf("got fixes %v, want the label alone", a.Fixes)
	}
}

// Each row is an object, and what the answer about it says, and what it does not say.
func TestWhyObjectsThatGoOrWait(t *testing.T) {
	gone := at(-time.Minute)
	three := int32(3)
	zero := int32(0)
	failed := "1,3"
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "x"}
	leaving := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x", DeletionTimestamp: &gone,
		Finalizers: []string{"example.com/keep"}}, Spec: appsv1.DeploymentSpec{Replicas: &three}}
	blocked := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: &three},
		Status: appsv1.DeploymentStatus{ReadyReplicas: 3, Conditions: []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue,
			Message: "pods \"x\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3"}}}}
	var pods []*corev1.Pod
	for _, name := range []string{"a", "b", "c"} {
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}})
	}
	indexed := &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Completions: &three, BackoffLimitPerIndex: &zero},
		Status: batchv1.JobStatus{Failed: 2, FailedIndexes: &failed, Conditions: []batchv1.JobCondition{{
			Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "FailedIndexes", Message: "has failed " +
				"indexes"}}}}
	cron := &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{Schedule: "* * * * *"}}
	refusal := corev1.Event{Reason: "FailedCreate", LastTimestamp: at(-time.Second),
		Message: `(combined from similar events): Error creating job: jobs.batch "x-1" is forbidden: no`}
	yes := true
	owner := []metav1.OwnerReference{{Kind: "Deployment", Name: "web", Controller: &yes}}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x", OwnerReferences: owner},
		Spec: appsv1.ReplicaSetSpec{Replicas: &zero}}
	soon := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{MinReadySeconds: 60},
		Status: appsv1.DeploymentStatus{ReadyReplicas: 1, UpdatedReplicas: 1, Replicas: 1}}
	ready := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}, Status: corev1.PodStatus{
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue,
			LastTransitionTime: at(-20 * time.Second)}}}}
	for _, c := range []struct {
		name       string
		s          Subject
		want, none []string
	}{
		{"being deleted", Subject{Kind: "deployment", Object: leaving}, []string{"is Terminating", "example.com/keep"},
			[]string{"wants 3 Pods"}},
		{"a roll-out against a quota", Subject{Kind: "deployment", Object: blocked, Pods: pods},
			[]string{"is stuck in a roll-out", "No further Pod can be made", "3 of its Pods are there"},
			[]string{"without Pods"}},
		{"failed indexes", Subject{Kind: "job", Object: indexed}, []string{"The failed indexes are 1,3 of 3."}, nil},
		{"Jobs refused", Subject{Kind: "cronjob", Object: cron, Events: []corev1.Event{refusal}},
			[]string{"is without Jobs", `refuses them: jobs.batch "x-1" is forbidden: no.`}, []string{"waits for " +
				"its time"}},
		{"a set that its Deployment keeps", Subject{Kind: "replicaset", Object: set},
			[]string{"Deployment web decides that"}, []string{"run one"}},
		{"not available yet", Subject{Kind: "deployment", Object: soon, Pods: []*corev1.Pod{ready}},
			[]string{"1 ready Pods are not yet available: they count as available only 60 s after", "the last in " +
				"40s"}, nil},
	} {
		c.s.Now, c.s.Namespace, c.s.Name = t0, "shop", "x"
		var b strings.Builder
		if err := WhyObject(c.s).WriteText(&b, t0); err != nil {
			t.Fatal(err)
		}
		for _, w := range c.want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%s: got\n%s\nwant %q", c.name, b.String(), w)
			}
		}
		for _, w := range c.none {
			if strings.Contains(b.String(), w) {
				t.Errorf("%s: got\n%s\nwant nothing of %q", c.name, b.String(), w)
			}
		}
	}
}

// An overview of a namespace tells its own trouble before that of the cluster around it, and counts
// only its own.
func TestOverviewTellsItsOwnFirst(t *testing.T) {
	broken := func(kind, ns string, related ...finding.Object) finding.Finding {
		return finding.Finding{Code: kind, Object: finding.Object{Kind: kind, Namespace: ns, Name: "x"},
			Related: related,
			Message: kind + " is broken."}
	}
	o := NewOverview("namespace shop", []finding.Finding{broken("CertificateSigningRequest", ""),
		broken("Node", "", finding.Object{Kind: "Pod", Namespace: "shop", Name: "a"}), broken("Service", "shop")}, nil)
	var got []string
	for _, c := range o.Causes {
		got = append(got, c.Object.Kind)
	}
	if want := []string{"Node", "Service", "CertificateSigningRequest"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	var b strings.Builder
	if err := o.WriteText(&b, t0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"In namespace shop 2 things are broken", "Beside it, in the cluster:\n\n" +
		"certificatesigningrequest/x"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got\n%s\nwant %q", b.String(), want)
		}
	}
}

// The log of a container that no other one has come after is not that of a previous one.
func TestLogOfAContainerThatStays(t *testing.T) {
	in := base()
	last := ended0(42, "Error")
	last.ContainerID = "containerd://1"
	s := in.state(corev1.ContainerState{Terminated: last})
	c := container{spec: &in.Pod.Spec.Containers[0], status: s}
	for _, x := range []struct {
		name  string
		state corev1.ContainerState
		want  bool
	}{{"it stays", corev1.ContainerState{Terminated: last}, false},
		{"another one waits", waiting("CrashLoopBackOff", ""), true}} {
		s.State = x.state
		fixes := exitFixes(in, c, last)
		if got := strings.HasSuffix(fixes[0].Run[0], " --previous"); got != x.want {
			t.Errorf("%s: got %q, want --previous %v", x.name, fixes[0].Run[0], x.want)
		}
	}
}
