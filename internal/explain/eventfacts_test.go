package explain

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

// podEvent is an event of a reason about container app of the Pod, some time ago.
func podEvent(reason, message string, ago time.Duration) corev1.Event {
	return corev1.Event{Reason: reason, Message: message, Count: 1, FirstTimestamp: at(-ago),
		LastTimestamp: at(-ago), InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "web",
			FieldPath: "spec.containers{app}"}}
}

// foreignIn is the Pod with a readiness probe, on a cluster that keeps no journal.
func foreignIn(events ...corev1.Event) In {
	in := base()
	in.NoJournal, in.Events = true, events
	in.Pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 10, FailureThreshold: 3}
	in.Pod.Spec.Containers[0].LivenessProbe = &corev1.Probe{PeriodSeconds: 10, FailureThreshold: 2}
	in.Pod.Spec.Volumes = []corev1.Volume{{Name: "cfg", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{}}}, {Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	return in
}

// Upstream's words of events become the facts that a journal would hold; other words become none.
func TestEventsBecomeFacts(t *testing.T) {
	grace := int64(5)
	for _, c := range []struct {
		reason, message string
		want            []journal.Fact
	}{
		{"Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 500", []journal.Fact{journal.Probed{
			Container: "app", Probe: "readiness", Result: "failure", Count: 1, Threshold: 3,
			Message: "HTTP probe failed with statuscode: 500"}}},
		{"Unhealthy", "Liveness probe errored and resulted in unknown state: no such file", []journal.Fact{
			journal.Probed{Container: "app", Probe: "liveness", Result: "unknown", Count: 1, Threshold: 2,
				Message: "no such file"}}},
		{"Unhealthy", "something else", nil},
		{"Killing", "Container app failed liveness probe, will be restarted", []journal.Fact{journal.Killing{
			Container: "app", Cause: "liveness probe failed", Grace: 5}}},
		{"Killing", "Init container app failed startup probe", []journal.Fact{journal.Killing{Container: "app",
			Cause: "startup probe failed", Grace: 5}}},
		{"Killing", "Stopping container app", nil},
		{"Killing", "Container app definition changed, will be restarted", []journal.Fact{journal.Killing{
			Container: "app", Cause: "changed", Grace: 5}}},
		{"FailedPostStartHook", "PostStartHook failed", []journal.Fact{journal.Killing{Container: "app",
			Cause: "postStart hook failed"}}},
		{"Pulling", `Pulling image "a:1"`, []journal.Fact{journal.Pulling{Image: "a:1", Container: "app"}}},
		{"Pulled", `Container image "a:1" already present on machine`, []journal.Fact{journal.Pulled{Image: "a:1",
			Present: true}}},
		{"Failed", `Failed to pull image "a:1": not found`, []journal.Fact{journal.PullFailed{Image: "a:1",
			Reason: "ErrImagePull", Message: "not found"}}},
		{"Failed", "Error: ErrImagePull", nil},
		{"FailedMount", `MountVolume.SetUp failed for volume "cfg" : configmap "x" not found`, []journal.Fact{
			journal.VolumeWaiting{Volume: "cfg", Type: "configMap", Message: `configmap "x" not found`}}},
		{"FailedAttachVolume", `AttachVolume.Attach failed for volume "pvc-1" : no such disk`, []journal.Fact{
			journal.VolumeWaiting{Volume: "data", Type: "persistentVolumeClaim", Message: "no such disk"}}},
		{"FailedAttachVolume", `Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) b`,
			[]journal.Fact{journal.VolumeWaiting{Volume: "data", Type: "persistentVolumeClaim",
				Message: "Multi-Attach error: Volume is already used by pod(s) b"}}}, // before v1.37
		{"FailedAttachVolume", `Waiting for detach for volume "pvc-1" Volume is already used by pod(s) b`,
			[]journal.Fact{journal.VolumeWaiting{Volume: "data", Type: "persistentVolumeClaim",
				Message: "Waiting for detach: Volume is already used by pod(s) b"}}},
		{"FailedMount", "Unable to attach or mount volumes: unmounted volumes=[cfg], unattached volumes=[], failed " +
			`to process volumes=[data]: claim "data" is lost`, []journal.Fact{journal.VolumeWaiting{Volume: "data",
			Type: "persistentVolumeClaim", Message: `claim "data" is lost`}}},
		{"FailedCreatePodSandBox", "Failed to create pod sandbox: no address left", []journal.Fact{journal.Called{
			Service: "CRI", Method: "RunPodSandbox", Error: "no address left"}}},
		{"FailedScheduling", "0/1 nodes are available", []journal.Fact{journal.Ruled{
			Message: "0/1 nodes are available"}}},
		{"Scheduled", "Successfully assigned shop/web to n1", []journal.Fact{journal.Bound{Node: "n1"}}},
		{"Preempted", "Preempted by pod u-9 on node n1", []journal.Fact{journal.Preempted{By: "shop/big", Node: "n1",
			Priority: 7}}},
		{"Preempted", "Preempted by pod u-0 on node n1", []journal.Fact{journal.Acted{Controller: "kube-scheduler",
			Action: "deleted", Message: "it was preempted on node n1 for pod u-0"}}},
		{"TaintManagerEviction", "Marking for deletion Pod shop/web", []journal.Fact{journal.Acted{
			Controller: "taint-eviction-controller", Action: "deleted",
			Message: "its node has a taint that it does not tolerate, or no longer"}}},
		{"TaintManagerEviction", "Cancelling deletion of Pod shop/web", nil},
		{"Created", "Container created", nil},
	} {
		in := foreignIn(podEvent(c.reason, c.message, time.Minute))
		in.Pod.Spec.TerminationGracePeriodSeconds = &grace
		priority := int32(7)
		in.ClusterContext = &ClusterContext{Pods: []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop",
			Name: "big", UID: "u-9"}, Spec: corev1.PodSpec{Priority: &priority}}}}
		var got []journal.Fact
		for _, e := range FactsOfEvents(in) {
			got = append(got, e.Fact)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s %q: got %#v, want %#v", c.reason, c.message, got, c.want)
		}
	}
}

// A volume that failed, and a sandbox, are past when the kubelet has come to the containers.
func TestFailuresThatAreOverBecomeNoFacts(t *testing.T) {
	mount := podEvent("FailedMount", `MountVolume.SetUp failed for volume "cfg" : configmap "x" not found`, time.Minute)
	sandbox := podEvent("FailedCreatePodSandBox", "Failed to create pod sandbox: no address left", time.Minute)
	in := foreignIn(mount, sandbox, podEvent("Pulling", `Pulling image "a:1"`, 30*time.Second))
	in.Pod.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.1"}}
	for _, e := range FactsOfEvents(in) {
		if _, ok := e.Fact.(journal.Pulling); !ok {
			t.Errorf("got %#v, want the pull alone", e.Fact)
		}
	}
}

// Failures of a probe are counted over its events, no more than its run has had periods for.
func TestFailuresOfProbesAreCounted(t *testing.T) {
	for _, c := range []struct {
		run  time.Duration
		want int
	}{{10 * time.Minute, 8}, {25 * time.Second, 3}} {
		one, two := podEvent("Unhealthy", "Readiness probe failed: a", time.Second), podEvent("Unhealthy",
			"Readiness probe failed: b", 0)
		one.Count, two.Count = 3, 5
		in := foreignIn(one, two)
		in.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(-c.run)}})
		in.Entries = FactsOfEvents(in)
		f, _, ok := newest[journal.Probed](in, nil)
		if !ok || f.Count != c.want || f.Message != "b" {
			t.Errorf("running for %s: got %+v, want %d failures, the last of them b", c.run, f, c.want)
		}
	}
}

// Status tells how a container ended, when it is started again, and which start is of its present
// run.
func TestStatusBecomesFacts(t *testing.T) {
	in := foreignIn(podEvent("Started", "Started container app", 20*time.Second))
	s := in.state(waiting("CrashLoopBackOff", "back-off 40s restarting failed container=app pod=web_shop(1)"))
	s.LastTerminationState.Terminated = ended0(3, "Error")
	in.Entries = FactsOfEvents(in)
	b, _, ok := newest[journal.BackingOff](in, nil)
	if want := t0.Add(30 * time.Second); !ok || !b.Until.Equal(want) {
		t.Errorf("got back-off %+v, want one until %s", b, want)
	}
	if x, _, ok := newest[journal.ContainerExited](in, nil); !ok || x.ExitCode != 3 {
		t.Errorf("got exit %+v, want code 3", x)
	}
	if x, _, ok := newest[journal.ContainerStarted](in, nil); ok {
		t.Errorf("got %+v, want no start: that run is over", x)
	}
}

// A Pod that its probe keeps from being ready is explained from events alone, with the port that
// the container declares, and what is not known is said so.
func TestWhyFromEventsAlone(t *testing.T) {
	in := foreignIn(podEvent("Unhealthy", `Liveness probe failed: Get "http://10.0.0.1:81/": dial tcp 10.0.0.1:81: `+
		"connect: connection refused", 11*time.Second), podEvent("Killing",
		"Container app failed liveness probe, will be restarted", 11*time.Second))
	c := &in.Pod.Spec.Containers[0]
	c.Ports = []corev1.ContainerPort{{ContainerPort: 80}}
	c.LivenessProbe.HTTPGet = &corev1.HTTPGetAction{}
	setPort(c.LivenessProbe, 81)
	s := in.state(waiting("CrashLoopBackOff", "back-off 40s restarting failed container=app"))
	s.RestartCount, s.LastTerminationState.Terminated = 2, ended0(137, "Error")
	in.Entries = FactsOfEvents(in)
	a := Why(in)
	for _, want := range []string{"liveness probe", "asks port 81", "is not known", "declares 80"} {
		if !strings.Contains(a.Cause, want) {
			t.Errorf("got %q, want %q in it", a.Cause, want)
		}
	}
	if a.Well() || !strings.Contains(a.Fixes[0].Description, "probe port 80 instead of 81") {
		t.Errorf("got %+v, want a fix that probes port 80", a.Fixes)
	}
}

// Of a Pod that is gone it is said who removed it where events tell, and else that it is not known.
func TestWhoRemovedAPodFromEvents(t *testing.T) {
	in := foreignIn()
	in.Pod, in.Node = nil, nil
	older := podEvent("TaintManagerEviction", "Marking for deletion Pod shop/web", time.Hour)
	older.InvolvedObject.UID = "old"
	in.Events = EventsOfNewest([]corev1.Event{older, podEvent("Scheduled", "Successfully assigned shop/web to n1",
		time.Minute), podEvent("Preempted", "Preempted by pod u-1 on node n1", time.Minute)})
	in.Entries = FactsOfEvents(in)
	if len(in.Events) != 2 || !RecordsRemoval(in.Entries) {
		t.Fatalf("got events %+v, want the newest Pod's", in.Events)
	}
	if a := Why(in); !strings.Contains(a.Cause, "preempted on node n1 for pod u-1") {
		t.Errorf("got %q, want the preemptor in it", a.Cause)
	}
	in.Events = in.Events[:1]
	if in.Entries = FactsOfEvents(in); RecordsRemoval(in.Entries) {
		t.Errorf("got %+v, want nothing that tells a removal", in.Entries)
	}
	if a := Why(in); !strings.Contains(a.Cause, "not known without a journal") {
		t.Errorf("got %q, want that it is not known", a.Cause)
	}
}

// A ready Pod whose liveness probe fails is not said to be blocked by nothing.
func TestAReadyPodWhoseLivenessFails(t *testing.T) {
	for _, c := range []struct {
		failed time.Duration // ago
		told   bool
	}{{5 * time.Second, true}, {10 * time.Minute, false}, {40 * time.Minute, false}} {
		in := foreignIn(podEvent("Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 500",
			c.failed))
		s := in.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(-20 * time.Minute)}})
		s.Ready = true
		in.Pod.Status.Phase = corev1.PodRunning
		in.Pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		in.Entries = FactsOfEvents(in)
		a := Why(in)
		if got := strings.Contains(a.Cause, "liveness probe of container app failed 5s ago"); got != c.told ||
			strings.Contains(a.Cause, "nothing blocks it") == c.told {
			t.Errorf("failed %s ago: got %q, want the failure told: %t", c.failed, a.Cause, c.told)
		}
	}
}

// Without a journal it is not known where a Pod's processes listen: a gRPC probe that reaches
// nobody is told as that, not as a slow answer.
func TestAProbeByGRPCWithoutSockets(t *testing.T) {
	in := foreignIn()
	c := &in.Pod.Spec.Containers[0]
	c.ReadinessProbe = &corev1.Probe{TimeoutSeconds: 1, ProbeHandler: corev1.ProbeHandler{
		GRPC: &corev1.GRPCAction{Port: 80}}}
	f := journal.Probed{Container: "app", Probe: "readiness", Result: "failure",
		Message: `timeout: failed to connect service "10.0.0.1:80" within 1s: context deadline exceeded`}
	if d := diagnoseProbe(in, c, f); !strings.HasPrefix(d.text, "asks port 80 by gRPC") {
		t.Errorf("got %q, want port 80", d.text)
	}
}

// A registry that refuses a pull whose secrets are not known is not said to have got none.
func TestPullSecretsThatAreNotKnown(t *testing.T) {
	for _, c := range []struct {
		around *NamespaceContext
		want   string
	}{
		{nil, "is not known"},
		{&NamespaceContext{Secrets: map[string][]string{}}, "there is no such Secret"},
		{&NamespaceContext{Secrets: map[string][]string{"pull": nil}, Registries: map[string][]string{
			"pull": {"registry.test"}}}, "does not accept the credentials of pull secret pull"},
	} {
		in := foreignIn(podEvent("Failed", `Failed to pull image "registry.test/web:1.4.3": 401 Unauthorized`,
			time.Minute))
		in.NamespaceContext = c.around
		in.Pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "pull"}}
		in.state(waiting("ErrImagePull", "401 Unauthorized"))
		in.Entries = FactsOfEvents(in)
		if a := Why(in); !strings.Contains(a.Cause, c.want) {
			t.Errorf("got %q, want %q in it", a.Cause, c.want)
		}
	}
}

// Why a Pod is being deleted is told by its DisruptionTarget condition, and else said not to be
// known.
func TestWhyAPodIsBeingDeleted(t *testing.T) {
	for _, c := range []struct {
		conditions []corev1.PodCondition
		want       string
	}{
		{nil, "who deleted it is not known without a journal"},
		{[]corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
			Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting"}},
			"it is deleted for EvictionByEvictionAPI: Eviction API: evicting"},
		{[]corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse, Reason: "x"}},
			"who deleted it is not known without a journal"},
	} {
		in := foreignIn()
		now := at(0)
		in.Pod.DeletionTimestamp, in.Pod.Status.Conditions = &now, c.conditions
		if a := Why(in); !slices.Contains(a.Facts, c.want) {
			t.Errorf("got %q, want %q among them", a.Facts, c.want)
		}
	}
}
