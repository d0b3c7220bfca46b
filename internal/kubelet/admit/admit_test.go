package admit_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/kubelet/admit"
	"github.com/gantry-project/gantry/test/wrappers"
)

func node() *v1.Node {
	return wrappers.MakeNode().Name("n1").Label("kubernetes.io/os", "linux").Label("disk", "ssd").
		Allocatable(map[v1.ResourceName]string{"cpu": "2", "memory": "1Gi", "pods": "2"}).Obj()
}

func tainted(effect v1.TaintEffect) *v1.Node {
	n := node()
	n.Spec.Taints = []v1.Taint{{Key: "k", Value: "v", Effect: effect}}
	return n
}

func pod(change func(*v1.Pod)) *v1.Pod {
	p := wrappers.MakePod().Name("p").Node("n1").Container("c", "").Obj()
	if change != nil {
		change(p)
	}
	return p
}

func withRequests(cpu, memory string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": resource.MustParse(cpu),
			"memory": resource.MustParse(memory)}
	}
}

func port(n int32) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: n, ContainerPort: n}} }
}

func TestAdmitPod(t *testing.T) {
	half := pod(withRequests("1500m", "1Mi"))
	for _, c := range []struct {
		name    string
		in      admit.In
		code    string
		message string
	}{
		{"fits", admit.In{Pod: pod(withRequests("500m", "1Mi")), Node: node(), OtherPods: []*v1.Pod{half}}, "", ""},
		{"cpu", admit.In{Pod: pod(withRequests("600m", "1Mi")), Node: node(), OtherPods: []*v1.Pod{half}}, "OutOfcpu",
			"Node didn't have enough resource: cpu, requested: 600, used: 1500, capacity: 2000"},
		{"memory", admit.In{Pod: pod(withRequests("1m", "2Gi")), Node: node()}, "OutOfmemory",
			"Node didn't have enough resource: memory, requested: 2147483648, used: 0, capacity: 1073741824"},
		{"pods", admit.In{Pod: pod(nil), Node: node(), OtherPods: []*v1.Pod{half, half}}, "OutOfpods",
			"Node didn't have enough resource: pods, requested: 1, used: 2, capacity: 2"},
		{"extended resource the node does not have", admit.In{Pod: pod(func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests = v1.ResourceList{"example.com/x": resource.MustParse("1")}
		}), Node: node()}, "", ""},
		{"selector", admit.In{Pod: pod(func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "hdd"} }),
			Node: node()}, "NodeAffinity",
			"Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"},
		{"name", admit.In{Pod: pod(func(p *v1.Pod) { p.Spec.NodeName = "other" }), Node: node()}, "NodeName",
			"Predicate NodeName failed: node(s) didn't match the requested node name"},
		{"ports", admit.In{Pod: pod(port(80)), Node: node(), OtherPods: []*v1.Pod{pod(port(80))}}, "NodePorts",
			"Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"},
		{"os", admit.In{Pod: pod(func(p *v1.Pod) { p.Spec.OS = &v1.PodOS{Name: "windows"} }), Node: node()},
			"PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"},
		{"os label", admit.In{Pod: pod(func(p *v1.Pod) { p.Labels = map[string]string{"kubernetes.io/os": "windows"} }),
			Node: node()}, "PodOSSelectorNodeLabelDoesNotMatch",
			"Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"},
		{"os in the selector",
			admit.In{Pod: pod(
				func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"kubernetes.io/os": "windows"} }),
				Node: node()}, "NodeAffinity",
			"Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"},
		{"a taint that evicts", admit.In{Pod: pod(nil), Node: tainted(v1.TaintEffectNoExecute)}, "TaintToleration",
			"Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"},
		{"a taint that evicts, tolerated for a while", admit.In{Pod: pod(func(p *v1.Pod) {
			p.Spec.Tolerations = []v1.Toleration{{Key: "k", Operator: v1.TolerationOpExists,
				TolerationSeconds: new(int64)}}
		}), Node: tainted(v1.TaintEffectNoExecute)}, "", ""},
		{"a taint for the scheduler", admit.In{Pod: pod(nil), Node: tainted(v1.TaintEffectNoSchedule)}, "", ""},
		{"a taint that evicts, a static Pod",
			admit.In{Pod: pod(
				func(p *v1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.source": "file"} }),
				Node: tainted(v1.TaintEffectNoExecute)}, "", ""},
		{"room is asked for before taints",
			admit.In{Pod: pod(withRequests("3", "1Mi")), Node: tainted(v1.TaintEffectNoExecute)}, "OutOfcpu",
			"Node didn't have enough resource: cpu, requested: 3000, used: 0, capacity: 2000"},
		{"labels before the name", admit.In{Pod: pod(func(p *v1.Pod) {
			p.Spec.NodeName, p.Spec.NodeSelector = "other", map[string]string{"disk": "hdd"}
		}), Node: node()}, "NodeAffinity",
			"Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"},
		{"sysctl", admit.In{Pod: pod(sysctl("net.core.somaxconn"))}, "SysctlForbidden",
			`forbidden sysctl: "net.core.somaxconn" not allowlisted`},
		{"safe sysctl", admit.In{Pod: pod(sysctl("net.ipv4.tcp_syncookies"))}, "", ""},
		{"allowed sysctl", admit.In{Pod: pod(sysctl("net.core.somaxconn")), AllowedSysctls: []string{"net.core.*"}}, "",
			""},
	} {
		t.Run(c.name, func(t *testing.T) {
			refusal := admit.Admit(c.in)
			switch {
			case refusal == nil && c.code != "":
				t.Error("let in")
			case refusal != nil && (string(refusal.Code) != c.code || refusal.Detail != c.message):
				t.Errorf("%s: got %s, want refusal.Code %v and Detail %v", refusal.Code, refusal.Detail, c.code,
					c.message)
			}
		})
	}
}

func sysctl(name string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: name, Value: "1"}}}
	}
}
