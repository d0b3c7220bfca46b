package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// A postStart hook that runs is told as data, and one that takes minutes, or says that it will, is
// a threat.
func TestAHookThatRunsIsAFinding(t *testing.T) {
	exec := func(command ...string) corev1.LifecycleHandler {
		return corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: command}}
	}
	for name, c := range map[string]struct {
		hook         corev1.LifecycleHandler
		ran          time.Duration
		field, value string
		severity     finding.Severity
		sleep        string
	}{
		"says that it sleeps long": {exec("sh", "-c", "sleep 600"), 3 * time.Second, "exec.command", "sh -c sleep 600",
			finding.Threat, "600"},
		"sleeps as the API has it": {corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 300}}, 3 * time.Second,
			"sleep.seconds", "300", finding.Threat, "300"},
		"sleeps a little": {exec("sleep", "20"), 3 * time.Second, "exec.command", "sleep 20", finding.Note, "20"},
		"has run for minutes": {corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/warm",
			Port: intstr.FromInt32(80)}}, 3 * time.Minute, "", "GET /warm on port 80", finding.Threat, ""},
	} {
		in := base()
		in.state(waiting("ContainerCreating", ""))
		in.app().Lifecycle = &corev1.Lifecycle{PostStart: &c.hook}
		in.fact(c.ran, "kubelet", journal.ContainerStarted{Container: "app", ID: "c1"})
		a := Why(in)
		ok := false
		for _, f := range a.Findings {
			ok = ok || f.Code == "HookRuns" && f.Severity == c.severity && f.Value == c.value &&
				strings.TrimSuffix("spec.containers[0].lifecycle.postStart."+c.field, ".") == f.Field &&
				f.Numbers["sleepSeconds"] == c.sleep && len(f.Remedies) == 1
		}
		if !ok {
			t.Errorf("%s: got %+v", name, a.Findings)
		}
	}
}

// What waits for the Service of its own Pod, or of that and others of its controller, waits for
// ever; where others may become ready, that is not said.
func TestAPodThatWaitsForItsOwnService(t *testing.T) {
	const forever = "Waiting never ends it"
	labels := map[string]string{"app": "web"}
	sibling := func(owner types.UID, ready corev1.ConditionStatus) *corev1.Pod {
		p := readyPod("web-2", labels, ready)
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: owner,
				Controller: new(true)}}
		}
		return p
	}
	for name, c := range map[string]struct {
		selects map[string]string
		others  []*corev1.Pod
		unready bool // publishNotReadyAddresses
		want    bool
	}{
		"it alone":                 {labels, nil, false, true},
		"it and a sibling":         {labels, []*corev1.Pod{sibling("r", corev1.ConditionFalse)}, false, true},
		"another controller's too": {labels, []*corev1.Pod{sibling("other", corev1.ConditionFalse)}, false, false},
		"one of nobody too":        {labels, []*corev1.Pod{sibling("", corev1.ConditionFalse)}, false, false},
		"a ready one too":          {labels, []*corev1.Pod{sibling("r", corev1.ConditionTrue)}, false, false},
		"others alone":             {map[string]string{"app": "db"}, nil, false, false},
		"also when not ready":      {labels, nil, true, false},
	} {
		in := base()
		in.Pod.Labels = labels
		in.Pod.OwnerReferences = sibling("r", corev1.ConditionFalse).OwnerReferences
		in.Pod.Spec.InitContainers = []corev1.Container{{Name: "gate", Command: []string{"sh", "-c",
			"until nc -z web 80; do sleep 1; done"}}}
		in.Pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "gate",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(-time.Minute)}}}}
		in.NamespaceContext = &NamespaceContext{Services: []*corev1.Service{{ObjectMeta: metav1.ObjectMeta{Name: "web",
			Namespace: "shop"}, Spec: corev1.ServiceSpec{Selector: c.selects, Ports: []corev1.ServicePort{{Port: 80}},
			PublishNotReadyAddresses: c.unready}}}}
		in.ClusterContext = &ClusterContext{Pods: append(c.others, in.Pod)}
		a := Why(in)
		if got := strings.Contains(a.Cause, forever); got != c.want {
			t.Errorf("%s: got cause %q, want one that never ends %v", name, a.Cause, c.want)
		}
		if c.want && (len(a.Fixes) == 0 || !strings.Contains(a.Fixes[0].Description, "do without gate")) {
			t.Errorf("%s: got fixes %+v, want one without the container first", name, a.Fixes)
		}
	}
}

// A device's taint that a claim does not tolerate is the matter of the claim's tolerations.
func TestATaintOfADeviceIsToBlame(t *testing.T) {
	words := "claim shop/gpus, request d asks for 1 of device class gpu: 2 of 2 devices of this node match, 1 taken"
	for name, c := range map[string]struct{ words, field, value, want string }{
		"with a value": {words + ", 1 with a taint that the request does not tolerate: team=batch:NoSchedule",
			"spec.devices.requests[0].exactly.tolerations", "team=batch:NoSchedule", "team=batch:NoSchedule"},
		"without one, of another effect": {words + ", 1 with a taint that the request does not tolerate: " +
			"example.com/broken=:NoExecute; claim shop/gpus, more", "spec.devices.requests[0].exactly.tolerations",
			"example.com/broken=:NoExecute", "example.com/broken=:NoExecute"},
		"taken": {words, "spec.devices.requests[0].exactly.count", "1", "1"},
	} {
		in := base()
		in.Pod.Spec.NodeName = ""
		name1 := "gpus"
		in.Pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "d", ResourceClaimName: &name1}}
		in.Objects = &finding.Cluster{}
		in.Objects.Add("ResourceClaim", &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "gpus",
			Namespace: "shop"}, Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{{Name: "d", Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: "gpu", Count: 1}}}}}})
		got := devicesRefusal(in, journal.NodeRefusal{Node: "n1", Plugin: "DynamicResources", Detail: c.words})
		if got.field != c.field || got.value != c.value || got.want != c.want || got.object.Kind != "ResourceClaim" {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}
