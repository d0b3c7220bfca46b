package lifecycle

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/test/wrappers"
)

// Sizes that the node cannot grant, or not yet, and sizes of the Pod as a whole. KEP-1287,
// KEP-2837.
func TestSizes(t *testing.T) { eachRuntime(t, sizeCases) }

var sizeCases = []Case{
	{
		name: "resize that the node can never grant, refused before the kubelet hears of it",
		spec: `{containers: [{name: app, command: ` + runs + `, resources: {requests: {cpu: 10m}}}]}`,
		steps: func(l *podLife) {
			l.ready()
			much := []byte(`{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"1k"}}}]}}`)
			_, err := l.client.CoreV1().Pods(l.ns).Patch(l.ctx, "p", types.StrategicMergePatchType, much,
				metav1.PatchOptions{}, "resize")
			want := fmt.Sprintf("pods \"p\" is forbidden: node didn't have enough allocatable resources: cpu, "+
				"requested: 1000000, allocatable: %d", l.allocatable())
			if err == nil || err.Error() != want {
				l.Errorf("got %v, want %q", err, want)
			}
			l.patch(`{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"20m"}}}]}}`, "resize")
			l.until("the size that was asked for instead", func(p *corev1.Pod) bool {
				a := status(p, "app").AllocatedResources
				return a.Cpu().String() == "20m" && wrappers.PodCondition(p, corev1.PodResizePending).Type == ""
			})
		},
		expected: expected{phases: "Pending Running", states: map[string]string{"app": "running"}},
	},
	{
		name: "resize that waits until others leave room",
		spec: `{containers: [{name: app, command: ` + runs + `, resources: {requests: {cpu: 10m}}}]}`,
		steps: func(l *podLife) {
			l.ready()
			much := l.allocatable() * 6 / 10
			leave := l.neighbour(much)
			l.patch(fmt.Sprintf(`{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"%dm"}}}]}}`,
				much), "resize")
			p := l.condition("PodResizePending=True/Deferred")
			if c := wrappers.PodCondition(p, corev1.PodResizePending); !strings.HasPrefix(c.Message,
				fmt.Sprintf("Node didn't have enough resource: cpu, requested: %d, used: ", much)) {
				l.Errorf("message: got %q, want it to begin with %q", c.Message,
					fmt.Sprintf("Node didn't have enough resource: cpu, requested: %d, used: ", much))
			}
			l.event("", "ResizeDeferred", "Node didn't have enough resource: cpu")
			leave()
			l.until("its new size", func(p *corev1.Pod) bool {
				a := status(p, "app").AllocatedResources
				return a.Cpu().MilliValue() == much && wrappers.PodCondition(p, corev1.PodResizePending).Type == "" &&
					wrappers.PodCondition(p, corev1.PodResizeInProgress).Type == ""
			})
			l.event("", "ResizeCompleted", "")
		},
		expected: expected{states: map[string]string{"app": "running"}},
	},
	{
		name: "sizes of the Pod as a whole",
		spec: `{resources: {requests: {cpu: 50m, memory: 48Mi}, limits: {cpu: 200m, memory: 64Mi}}, containers: ` +
			`[{name: app, command: ` + runs + `}, {name: other, command: ` + runs + `}]}`,
		steps: func(l *podLife) {
			p := l.ready()
			if p.Status.QOSClass != corev1.PodQOSBurstable {
				l.Errorf("class %s, want %v", p.Status.QOSClass, corev1.PodQOSBurstable)
			}
			l.wholeLimit(p, 64<<20)
			l.patch(`{"spec":{"resources":{"limits":{"memory":"96Mi"}}}}`, "resize")
			p = l.until("the Pod's new size", func(p *corev1.Pod) bool {
				r := p.Status.Resources
				return r != nil && r.Limits.Memory().String() == "96Mi" &&
					wrappers.PodCondition(p, corev1.PodResizeInProgress).Type == ""
			})
			l.wholeLimit(p, 96<<20)
		},
		expected: expected{phases: "Pending Running", conditions: allTrue,
			states: map[string]string{"app": "running", "other": "running"}},
	},
	{
		name: "a rule restarts all containers",
		spec: `{restartPolicy: Never, initContainers: [{name: i, command: [sh, -c, "echo i >> /m/log"], ` +
			marksMounted + `}], containers: [
			{name: worker, command: [sh, -c, "echo w >> /m/log; touch /d/up; trap 'exit 0' TERM; touch /tmp/up;
			while true; do sleep 0.1; done"], volumeMounts: [{name: marks, mountPath: /m}, {name: d, mountPath: /d}]},
			{name: watcher, restartPolicy: Never, restartPolicyRules: [{action: RestartAllContainers,
			exitCodes: {operator: In, values: [42]}}], volumeMounts: [{name: d, mountPath: /d}],
				command: [sh, -c, "until test -e /d/up; do sleep 0.1; done; test -e /d/x || { touch /d/x; exit 42; };
				trap 'exit 0' TERM; touch /tmp/up; while true; do sleep 0.1; done"]}],
			volumes: [{name: marks, hostPath: {path: "{marks}"}}, {name: d, emptyDir: {}}]}`,
		steps: func(l *podLife) {
			l.restarted("watcher", 1)
			l.restarted("worker", 1)
			l.ready()
			l.wrote("i w i w")
			if list := l.sandboxes(); len(list) != 1 || list[0].Metadata.Attempt != 0 {
				l.Errorf("sandboxes %v: the first one stays", list)
			}
			l.condition("AllContainersRestarting=False")
		},
		expected: expected{states: map[string]string{"i": "ended 0 Completed x1", "worker": "running x1",
			"watcher": "running x1"}},
	},
}

// allocatable is what the node has for Pods, in thousandths of a core.
func (l *podLife) allocatable() int64 {
	l.Helper()
	list, err := l.client.CoreV1().Nodes().List(l.ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		l.Fatalf("nodes: got %v %v, want no error and Items of length 1", list, err)
	}
	return list.Items[0].Status.Allocatable.Cpu().MilliValue()
}

// neighbour runs a Pod of another namespace that asks for so many thousandths of a core, and waits
// until it runs; leave takes it away.
func (l *podLife) neighbour(cpu int64) (leave func()) {
	l.Helper()
	pods := l.client.CoreV1().Pods(metav1.NamespaceDefault)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "beside-" + l.ns},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Image: busybox, Command: []string{"sleep", "3600"},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI)}},
		}}}}
	if _, err := pods.Create(l.ctx, p, metav1.CreateOptions{}); err != nil {
		l.Fatal(err)
	}
	leave = func() {
		// it may be gone
		_ = pods.Delete(context.Background(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: &shortly})
	}
	l.Cleanup(leave)
	l.eventually("the neighbour runs", func() error {
		now, err := pods.Get(l.ctx, p.Name, metav1.GetOptions{})
		if err == nil && now.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("is %s %s %s", now.Status.Phase, now.Status.Reason, now.Status.Message)
		}
		return err
	})
	return leave
}

// wholeLimit checks the memory limit of the Pod's own cgroup, where there are real ones.
func (l *podLife) wholeLimit(p *corev1.Pod, want int64) {
	l.Helper()
	if l.registry == "registry.test" {
		return
	}
	for _, pattern := range []string{"/sys/fs/cgroup/memory/gantry-*/kubepods/burstable/pod%s/memory.limit_in_bytes",
		"/sys/fs/cgroup/gantry-*/kubepods/burstable/pod%s/memory.max"} {
		found, _ := filepath.Glob(fmt.Sprintf(pattern, p.UID))
		if len(found) == 0 {
			continue
		}
		raw, err := os.ReadFile(found[0])
		if got := strings.TrimSpace(string(raw)); err != nil || got != fmt.Sprint(want) {
			l.Errorf("memory limit of the Pod's cgroup: %q %v, want %d", got, err, want)
		}
		return
	}
	l.Errorf("the Pod has no cgroup")
}
