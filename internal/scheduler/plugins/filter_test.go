package plugins_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	config "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/imagelocality"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodeaffinity"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodename"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodeports"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/noderesources"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/nodeunschedulable"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/podtopologyspread"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/tainttoleration"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/test/wrappers"
)

func newNode(name string, change ...func(*v1.Node)) *v1.Node {
	return wrappers.MakeNode().Hostname(name).Allocatable(map[v1.ResourceName]string{v1.ResourceCPU: "4",
		v1.ResourceMemory: "8Gi", v1.ResourcePods: "110"}).Obj(change...)
}

func newPod(name string, change ...func(*v1.Pod)) *v1.Pod {
	return wrappers.MakePod().Namespace("ns").Name(name).UID(name).Container("c", "img").Obj(change...)
}

func quantities(pairs ...string) v1.ResourceList {
	l := v1.ResourceList{}
	for _, p := range pairs {
		name, n, _ := strings.Cut(p, "=")
		l[v1.ResourceName(name)] = resource.MustParse(n)
	}
	return l
}

func requests(pairs ...string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests = quantities(pairs...) }
}

func allocatable(pairs ...string) func(*v1.Node) {
	return func(n *v1.Node) {
		for name, q := range quantities(pairs...) {
			n.Status.Allocatable[name] = q
		}
	}
}

func onNode(node string) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.NodeName = node } }

func label(key, value string) func(*v1.Node) { return func(n *v1.Node) { n.Labels[key] = value } }

func withPodLabels(pairs ...string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Labels = map[string]string{}
		for _, s := range pairs {
			k, v, _ := strings.Cut(s, "=")
			p.Labels[k] = v
		}
	}
}

func taint(text string) func(*v1.Node) {
	return func(n *v1.Node) {
		rest, effect, _ := strings.Cut(text, ":")
		k, v, _ := strings.Cut(rest, "=")
		n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: k, Value: v, Effect: v1.TaintEffect(effect)})
	}
}

func tolerate(t v1.Toleration) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, t) }
}

func hostPort(n int32) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: n}} }
}

func fitArgs(s *config.ScoringStrategy, ignored ...string) *config.NodeResourcesFitArgs {
	if s == nil {
		s = &config.ScoringStrategy{Type: config.LeastAllocated,
			Resources: []config.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}}}
	}
	return &config.NodeResourcesFitArgs{ScoringStrategy: s, IgnoredResourceGroups: ignored}
}

// schedulePod gives the Result of one plugin.
func schedulePod(p *v1.Pod, pl framework.Plugin, w *snapshot.Snapshot) *schedule.Result {
	return bothWays(p, pl, w)["node by node"]
}

// bothWays gives the Result of one plugin that is asked about node by node, and that of its
// columns.
func bothWays(p *v1.Pod, pl framework.Plugin, w *snapshot.Snapshot) map[string]*schedule.Result {
	in := schedule.Input{Pod: p, Snapshot: w,
		Plugins: schedule.NewPluginSet("test", schedule.WeightedPlugin{Plugin: pl})}
	plain := schedule.SchedulePod(context.Background(), in)
	in.Cache = &schedule.EquivalenceCache{}
	return map[string]*schedule.Result{"node by node": plain, "by columns": schedule.SchedulePod(context.Background(),
		in)}
}

// statusText prints a node's first refusal: "Code: reasons | detail | fix", or "fits".
func statusText(r *schedule.Result, node string) string {
	for _, no := range r.Refusals(1 << 20) {
		if no.Node == node {
			return no.Code + ": " + strings.Join(no.Messages, ", ") + " | " + no.Detail + " | " + no.Fix
		}
	}
	if r.Failed() || r.EvaluatedNodes == 0 {
		return r.Message()
	}
	return "fits"
}

// fitsOn names the nodes that are not refused.
func fitsOn(r *schedule.Result, nodes []*v1.Node) string {
	var fits []string
	for _, n := range nodes {
		if statusText(r, n.Name) == "fits" {
			fits = append(fits, n.Name)
		}
	}
	return strings.Join(fits, " ")
}

// row: FIL-06, FIL-07, FIL-09, FIL-10, FIL-11, FIL-13, FIL-15, FIL-16, FIL-17, FIL-18
func TestFilterStatuses(t *testing.T) {
	fit := expect.Value(noderesources.NewFit(fitArgs(nil)))
	affinity := expect.Value(nodeaffinity.New(nil))
	enforced := expect.Value(
		nodeaffinity.New(
			&config.NodeAffinityArgs{
				AddedAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
					NodeSelectorTerms: []v1.NodeSelectorTerm{
						{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "pool", Operator: v1.NodeSelectorOpIn,
							Values: []string{"batch"}}}}}}}}))
	cordoned := func(n *v1.Node) { n.Spec.Unschedulable = true }
	const cordonedStatus = "UnschedulableAndUnresolvable: node(s) were unschedulable | cordoned " +
		"(spec.unschedulable) | kubectl uncordon n"
	initRequests := func(cpu string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Name: "i",
				Resources: v1.ResourceRequirements{Requests: quantities("cpu=" + cpu)}})
		}
	}
	for name, c := range map[string]struct {
		pl   framework.Plugin
		p    *v1.Pod
		n    *v1.Node
		pods []*v1.Pod
		want string
	}{
		"name, same": {pl: nodename.New(), p: newPod("p", onNode("n")), n: newNode("n"), want: "fits"},
		"name, other": {pl: nodename.New(), p: newPod("p", onNode("m")), n: newNode("n"),
			want: `UnschedulableAndUnresolvable: node(s) didn't match the requested node name | spec.nodeName is "m" ` +
				`| add a node named "m", or make the Pod anew without spec.nodeName`},

		"cordoned": {pl: nodeunschedulable.New(), p: newPod("p"), n: newNode("n", cordoned),
			want: cordonedStatus},
		"cordoned, tolerated": {pl: nodeunschedulable.New(),
			p: newPod("p", tolerate(v1.Toleration{Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpExists})),
			n: newNode("n", cordoned), want: "fits"},
		"cordoned, the effect tolerated": {pl: nodeunschedulable.New(), p: newPod("p",
			tolerate(v1.Toleration{Key: "a"}), tolerate(v1.Toleration{Key: v1.TaintNodeUnschedulable,
				Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule})),
			n: newNode("n", cordoned), want: "fits"},
		"cordoned, everything tolerated": {pl: nodeunschedulable.New(),
			p: newPod("p", tolerate(v1.Toleration{Operator: v1.TolerationOpExists})),
			n: newNode("n", cordoned), want: "fits"},
		"cordoned, another effect tolerated": {pl: nodeunschedulable.New(),
			p: newPod("p", tolerate(v1.Toleration{Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpExists,
				Effect: v1.TaintEffectNoExecute})), n: newNode("n", cordoned), want: cordonedStatus},
		"cordoned, another key tolerated": {pl: nodeunschedulable.New(),
			p: newPod("p", tolerate(v1.Toleration{Key: v1.TaintNodeNotReady, Operator: v1.TolerationOpExists})),
			n: newNode("n", cordoned), want: cordonedStatus},

		"NoSchedule": {pl: tainttoleration.New(), p: newPod("p"),
			n: newNode("n", taint("dedicated=web:NoSchedule")),
			want: "UnschedulableAndUnresolvable: node(s) had untolerated taint(s) | taint dedicated=web:NoSchedule | " +
				"add a toleration for dedicated=web:NoSchedule to the Pod, or kubectl taint node n " +
				"dedicated:NoSchedule-"},
		"NoExecute": {pl: tainttoleration.New(), p: newPod("p"), n: newNode("n", taint("gone:NoExecute")),
			want: "UnschedulableAndUnresolvable: node(s) had untolerated taint(s) | taint gone:NoExecute | add a " +
				"toleration for gone:NoExecute to the Pod, or kubectl taint node n gone:NoExecute-"},
		"PreferNoSchedule": {pl: tainttoleration.New(), p: newPod("p"), n: newNode("n", taint("busy:PreferNoSchedule")),
			want: "fits"},
		"PreferNoSchedule beside tolerations of others": {pl: tainttoleration.New(),
			p: newPod("p", tolerate(v1.Toleration{Key: "dedicated", Value: "web"}),
				tolerate(v1.Toleration{Key: "busy", Operator: v1.TolerationOpExists,
					Effect: v1.TaintEffectNoSchedule})),
			n: newNode("n", taint("dedicated=web:NoSchedule"), taint("busy:PreferNoSchedule")), want: "fits"},
		"tolerated": {pl: tainttoleration.New(),
			p: newPod("p", tolerate(v1.Toleration{Key: "dedicated", Value: "web"})),
			n: newNode("n", taint("dedicated=web:NoSchedule")), want: "fits"},
		"the second taint of two": {pl: tainttoleration.New(),
			p: newPod("p", tolerate(v1.Toleration{Key: "dedicated", Value: "web"})),
			n: newNode("n", taint("dedicated=web:NoSchedule"), taint("gpu=yes:NoSchedule")),
			want: "UnschedulableAndUnresolvable: node(s) had untolerated taint(s) | taint gpu=yes:NoSchedule | add a " +
				"toleration for gpu=yes:NoSchedule to the Pod, or kubectl taint node n gpu:NoSchedule-"},
		"a NoExecute taint after a soft one": {pl: tainttoleration.New(), p: newPod("p"),
			n: newNode("n", taint("busy:PreferNoSchedule"), taint("gone:NoExecute")),
			want: "UnschedulableAndUnresolvable: node(s) had untolerated taint(s) | taint gone:NoExecute | add a " +
				"toleration for gone:NoExecute to the Pod, or kubectl taint node n gone:NoExecute-"},
		"two taints and a toleration for each": {pl: tainttoleration.New(),
			p: newPod("p", tolerate(v1.Toleration{Key: "gpu", Operator: v1.TolerationOpExists}),
				tolerate(v1.Toleration{Key: "dedicated", Value: "web"})),
			n: newNode("n", taint("dedicated=web:NoSchedule"), taint("gpu=yes:NoExecute")), want: "fits"},
		"tolerated, but for scheduling only": {pl: tainttoleration.New(),
			p: newPod("p", tolerate(v1.Toleration{Key: "gone", Operator: v1.TolerationOpExists,
				Effect: v1.TaintEffectNoSchedule})), n: newNode("n", taint("gone:NoExecute")),
			want: "UnschedulableAndUnresolvable: node(s) had untolerated taint(s) | taint gone:NoExecute | add a " +
				"toleration for gone:NoExecute to the Pod, or kubectl taint node n gone:NoExecute-"},

		"selector": {pl: affinity,
			p: newPod("p", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }),
			n: newNode("n", label("disk", "hdd")),
			want: "UnschedulableAndUnresolvable: node(s) didn't match Pod's node affinity/selector | nodeSelector " +
				"wants disk=ssd, node has disk=hdd | kubectl label node n disk=ssd --overwrite"},
		"added affinity": {pl: enforced, p: newPod("p"), n: newNode("n"),
			want: "UnschedulableAndUnresolvable: node(s) didn't match scheduler-enforced node affinity | the " +
				"profile's addedAffinity leaves the node out | choose another schedulerName, or change addedAffinity " +
				"in the scheduler's configuration"},
		"added affinity ok": {pl: enforced, p: newPod("p"), n: newNode("n", label("pool", "batch")), want: "fits"},

		"port taken": {pl: nodeports.New(), p: newPod("p", hostPort(80)), n: newNode("n"),
			pods: []*v1.Pod{newPod("q", onNode("n"), hostPort(80))},
			want: "Unschedulable: node(s) didn't have free ports for the requested pod ports | host port 80 is taken " +
				"by ns/q | choose another hostPort, or do without one"},
		"port free": {pl: nodeports.New(), p: newPod("p", hostPort(80)), n: newNode("n"),
			pods: []*v1.Pod{newPod("q", onNode("n"), hostPort(81))}, want: "fits"},

		"room for the rest": {pl: fit, p: newPod("p", requests("cpu=1")), n: newNode("n"),
			pods: []*v1.Pod{newPod("q", onNode("n"), requests("cpu=3"))}, want: "fits"},
		"two containers, too much together": {pl: fit, p: newPod("p", requests("cpu=1"), func(p *v1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "d",
				Resources: v1.ResourceRequirements{Requests: quantities("cpu=1")}})
		}), n: newNode("n"), pods: []*v1.Pod{newPod("q", onNode("n"), requests("cpu=3"))},
			want: "Unschedulable: Insufficient cpu | asks cpu 2, 1 left of 4 | request 1 cpu less, free as much, or " +
				"add a node"},
		"two Pods there": {pl: fit, p: newPod("p", requests("cpu=1", "memory=4Gi")), n: newNode("n"),
			pods: []*v1.Pod{newPod("q", onNode("n"), requests("cpu=3", "memory=2Gi")),
				newPod("r", onNode("n"), requests("cpu=1", "memory=2Gi"))},
			want: "Unschedulable: Insufficient cpu | asks cpu 1, 0 left of 4 | request 1 cpu less, free as much, or " +
				"add a node"},
		"init container, too large": {pl: fit, p: newPod("p", requests("cpu=1"), initRequests("3")), n: newNode("n"),
			pods: []*v1.Pod{newPod("q", onNode("n"), requests("cpu=2"))},
			want: "Unschedulable: Insufficient cpu | asks cpu 3, 2 left of 4 | request 1 cpu less, free as much, or " +
				"add a node"},
		"init containers, one after the other": {pl: fit,
			p: newPod("p", requests("cpu=1"), initRequests("2"), initRequests("2")), n: newNode("n"),
			pods: []*v1.Pod{newPod("q", onNode("n"), requests("cpu=2"))}, want: "fits"},
		"a sidecar adds, too large": {pl: fit, p: newPod("p", requests("cpu=1"), initRequests("2"),
			func(p *v1.Pod) { p.Spec.InitContainers[0].RestartPolicy = new(v1.ContainerRestartPolicyAlways) }),
			n: newNode("n"), pods: []*v1.Pod{newPod("q", onNode("n"), requests("cpu=2"))},
			want: "Unschedulable: Insufficient cpu | asks cpu 3, 2 left of 4 | request 1 cpu less, free as much, or " +
				"add a node"},
		"an init container of a Pod there": {pl: fit, p: newPod("p", requests("cpu=2")), n: newNode("n"),
			pods: []*v1.Pod{newPod("q", onNode("n"), requests("cpu=1"), initRequests("3"))},
			want: "Unschedulable: Insufficient cpu | asks cpu 2, 1 left of 4 | request 1 cpu less, free as much, or " +
				"add a node"},
		"overhead of a Pod there": {pl: fit, p: newPod("p", requests("cpu=2")), n: newNode("n"),
			pods: []*v1.Pod{newPod("q", onNode("n"), requests("cpu=1"),
				func(p *v1.Pod) { p.Spec.Overhead = quantities("cpu=2") })},
			want: "Unschedulable: Insufficient cpu | asks cpu 2, 1 left of 4 | request 1 cpu less, free as much, or " +
				"add a node"},
		"overhead, too large": {pl: fit, p: newPod("p", requests("cpu=1"), func(p *v1.Pod) {
			p.Spec.Overhead = quantities("cpu=2")
		}), n: newNode("n"), pods: []*v1.Pod{newPod("q", onNode("n"), requests("cpu=2"))},
			want: "Unschedulable: Insufficient cpu | asks cpu 3, 2 left of 4 | request 1 cpu less, free as much, or " +
				"add a node"},
		"one milli too much": {pl: fit, p: newPod("p", requests("cpu=1001m")), n: newNode("n"),
			pods: []*v1.Pod{newPod("q", onNode("n"), requests("cpu=3"))},
			want: "Unschedulable: Insufficient cpu | asks cpu 1001m, 1 left of 4 | request 1m cpu less, free as " +
				"much, or add a node"},
		"cpu and memory": {pl: fit, p: newPod("p", requests("cpu=2", "memory=2Gi")), n: newNode("n"),
			pods: []*v1.Pod{newPod("q", onNode("n"), requests("cpu=3", "memory=7Gi"))},
			want: "Unschedulable: Insufficient cpu, Insufficient memory | asks cpu 2, 1 left of 4; asks memory 2Gi, " +
				"1Gi left of 8Gi | request 1 cpu less, free as much, or add a node; request 1Gi memory less, free as " +
				"much, or add a node"},
		"more than the node": {pl: fit, p: newPod("p", requests("cpu=5")), n: newNode("n"),
			want: "UnschedulableAndUnresolvable: Insufficient cpu | asks cpu 5, the whole node has 4 | request at " +
				"most 4 cpu, or add a larger node"},
		"best effort on full": {pl: fit, p: newPod("p"), n: newNode("n"),
			pods: []*v1.Pod{newPod("q", onNode("n"), requests("cpu=4", "memory=8Gi"))}, want: "fits"},
		"best effort on more than full": {pl: fit, p: newPod("p"), n: newNode("n"),
			pods: []*v1.Pod{newPod("q", onNode("n"), requests("cpu=5", "memory=9Gi"))}, want: "fits"},
		"too many Pods": {pl: fit, p: newPod("p"), n: newNode("n", allocatable("pods=1")),
			pods: []*v1.Pod{newPod("q", onNode("n"))},
			want: "Unschedulable: Too many pods | 1 of 1 Pods already there | remove a Pod from the node, add a " +
				"node, or raise the kubelet's maxPods"},
		"extended, too few": {pl: fit, p: newPod("p", requests("nvidia.com/gpu=2")),
			n: newNode("n", allocatable("nvidia.com/gpu=1")),
			want: "UnschedulableAndUnresolvable: Insufficient nvidia.com/gpu | asks nvidia.com/gpu 2, the whole node " +
				"has 1 | request at most 1 nvidia.com/gpu, or add a larger node"},
		"extended, none": {pl: fit, p: newPod("p", requests("nvidia.com/gpu=2")), n: newNode("n"),
			want: "UnschedulableAndUnresolvable: Insufficient nvidia.com/gpu | asks nvidia.com/gpu 2, the node " +
				"offers none | add a node that offers nvidia.com/gpu"},
		"extended, ignored": {pl: expect.Value(noderesources.NewFit(fitArgs(nil, "nvidia.com"))),
			p: newPod("p", requests("nvidia.com/gpu=2")), n: newNode("n"), want: "fits"},
		"extended, the rest": {pl: fit, p: newPod("p", requests("nvidia.com/gpu=1")),
			n:    newNode("n", allocatable("nvidia.com/gpu=2")),
			pods: []*v1.Pod{newPod("q", onNode("n"), requests("nvidia.com/gpu=1"))}, want: "fits"},
		"extended, some are taken": {pl: fit, p: newPod("p", requests("nvidia.com/gpu=2")),
			n: newNode("n", allocatable("nvidia.com/gpu=3")),
			pods: []*v1.Pod{newPod("q", onNode("n"), requests("nvidia.com/gpu=1")),
				newPod("r", onNode("n"), requests("nvidia.com/gpu=1"))},
			want: "Unschedulable: Insufficient nvidia.com/gpu | asks nvidia.com/gpu 2, 1 left of 3 | request 1 " +
				"nvidia.com/gpu less, free as much, or add a node"},
		"extended, the second of two": {pl: fit, p: newPod("p", requests("example.com/a=1", "nvidia.com/gpu=2")),
			n: newNode("n", allocatable("example.com/a=1", "nvidia.com/gpu=1")),
			want: "UnschedulableAndUnresolvable: Insufficient nvidia.com/gpu | asks nvidia.com/gpu 2, the whole node " +
				"has 1 | request at most 1 nvidia.com/gpu, or add a larger node"},
		"limits do not count": {pl: fit,
			p: newPod("p", func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits = quantities("cpu=64") }),
			n: newNode("n"), want: "fits"},
		"limits of Pods there do not count": {pl: fit, p: newPod("p", requests("cpu=1", "memory=1Gi")), n: newNode("n"),
			pods: []*v1.Pod{newPod("q", onNode("n"), requests("cpu=3", "memory=7Gi"), func(p *v1.Pod) {
				p.Spec.Containers[0].Resources.Limits = quantities("cpu=64", "memory=64Gi")
			})}, want: "fits"},
		"ephemeral storage": {pl: fit, p: newPod("p", requests("ephemeral-storage=2Gi")),
			n:    newNode("n", allocatable("ephemeral-storage=3Gi")),
			pods: []*v1.Pod{newPod("q", onNode("n"), requests("ephemeral-storage=2Gi"))},
			want: "Unschedulable: Insufficient ephemeral-storage | asks ephemeral-storage 2Gi, 1Gi left of 3Gi | " +
				"request 1Gi ephemeral-storage less, free as much, or add a node"},
	} {
		for form, r := range bothWays(c.p, c.pl, snapshot.Of([]*v1.Node{c.n}, c.pods)) {
			if got := statusText(r, "n"); got != c.want {
				t.Errorf("%s, %s:\n got %s\nwant %s", name, form, got, c.want)
			}
		}
	}
}

// Each operator decides about both nodes, terms are ORed, expressions ANDed, and every label of the
// selector counts.
//
// row: FIL-02, FIL-03, FIL-04
func TestNodeAffinityStatuses(t *testing.T) {
	nodes := []*v1.Node{newNode("a", label("disk", "ssd"), label("cpus", "8"), label("rack", "1")),
		newNode("b", label("disk", "hdd"), label("cpus", "4"), label("spot", ""))}
	req := func(key string, op v1.NodeSelectorOperator, values ...string) v1.NodeSelectorRequirement {
		return v1.NodeSelectorRequirement{Key: key, Operator: op, Values: values}
	}
	all := func(r ...v1.NodeSelectorRequirement) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: r}
	}
	affinity := func(terms ...v1.NodeSelectorTerm) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms}}}
		}
	}
	selector := func(pairs ...string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			withPodLabels(pairs...)(p)
			p.Spec.NodeSelector, p.Labels = p.Labels, nil
		}
	}
	for name, c := range map[string]struct {
		change func(*v1.Pod)
		want   string
	}{
		"selector":                   {selector("disk=ssd"), "a"},
		"selector of all labels":     {selector("disk=ssd", "cpus=8"), "a"},
		"selector, one is different": {selector("disk=ssd", "cpus=4"), ""},
		"selector, one is missing":   {selector("disk=hdd", "rack=1"), ""},
		"selector, no value":         {selector("spot="), "b"},
		"selector, part of a value":  {selector("disk=s"), ""},
		"selector, other case":       {selector("disk=SSD"), ""},
		"NotIn of two values":        {affinity(all(req("disk", v1.NodeSelectorOpNotIn, "nvme", "hdd"))), "a"},
		"Gt of a missing label":      {affinity(all(req("rack", v1.NodeSelectorOpGt, "0"))), "a"},
		"Exists of no value":         {affinity(all(req("spot", v1.NodeSelectorOpExists))), "b"},
		"In":                         {affinity(all(req("disk", v1.NodeSelectorOpIn, "nvme", "ssd"))), "a"},
		"NotIn":                      {affinity(all(req("disk", v1.NodeSelectorOpNotIn, "ssd"))), "b"},
		"NotIn of a missing label":   {affinity(all(req("rack", v1.NodeSelectorOpNotIn, "1"))), "b"},
		"Exists":                     {affinity(all(req("rack", v1.NodeSelectorOpExists))), "a"},
		"DoesNotExist":               {affinity(all(req("rack", v1.NodeSelectorOpDoesNotExist))), "b"},
		"Gt":                         {affinity(all(req("cpus", v1.NodeSelectorOpGt, "4"))), "a"},
		"Lt":                         {affinity(all(req("cpus", v1.NodeSelectorOpLt, "8"))), "b"},
		"one term of two": {affinity(all(req("disk", v1.NodeSelectorOpIn, "nvme")),
			all(req("cpus", v1.NodeSelectorOpIn, "4"))), "b"},
		"a term each": {affinity(all(req("rack", v1.NodeSelectorOpExists)),
			all(req("disk", v1.NodeSelectorOpIn, "hdd"))), "a b"},
		"one expression of two": {affinity(all(req("disk", v1.NodeSelectorOpExists),
			req("cpus", v1.NodeSelectorOpGt, "4"))), "a"},
		"expressions that exclude each other": {affinity(all(req("disk", v1.NodeSelectorOpIn, "hdd"),
			req("cpus", v1.NodeSelectorOpGt, "4"))), ""},
		"selector and affinity": {func(p *v1.Pod) {
			selector("disk=ssd")(p)
			affinity(all(req("rack", v1.NodeSelectorOpDoesNotExist)))(p)
		}, ""},
	} {
		for form, r := range bothWays(newPod("p", c.change), expect.Value(nodeaffinity.New(nil)),
			snapshot.Of(nodes, nil)) {
			if got := fitsOn(r, nodes); got != c.want {
				t.Errorf("%s, %s: fits on %q, want on %q", name, form, got, c.want)
			}
		}
	}
}

// row: FIL-04
func TestNodeAffinityNamesNodesByField(t *testing.T) {
	named := func(names ...string) *v1.Pod { // one term for each
		var terms []v1.NodeSelectorTerm
		for _, name := range names {
			terms = append(terms, v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{name}}}})
		}
		return newPod("p", func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms}}}
		})
	}
	w := snapshot.Of([]*v1.Node{newNode("a"), newNode("b"),
		newNode("c", func(n *v1.Node) { n.Spec.Unschedulable = true })}, nil)
	pluginSet := schedule.NewPluginSet("test", schedule.WeightedPlugin{Plugin: expect.Value(nodeaffinity.New(nil))},
		schedule.WeightedPlugin{Plugin: nodeunschedulable.New()})
	r := schedule.SchedulePod(t.Context(), schedule.Input{Pod: named("b"), Snapshot: w, Plugins: pluginSet})
	if r.SuggestedHost != "b" || r.EvaluatedNodes != 1 {
		t.Errorf("winner %q after %d nodes, want b alone to be asked", r.SuggestedHost, r.EvaluatedNodes)
	}
	r = schedule.SchedulePod(t.Context(), schedule.Input{Pod: named("a", "b"), Snapshot: w, Plugins: pluginSet})
	if r.Feasible() != 2 || r.EvaluatedNodes != 2 {
		t.Errorf("two terms: got %d of %d nodes that fit, want a and b: %s", r.Feasible(), r.EvaluatedNodes,
			r.Message())
	}
	r = schedule.SchedulePod(t.Context(), schedule.Input{Pod: named("c"), Snapshot: w, Plugins: pluginSet})
	if want := "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) didn't satisfy plugin(s) " +
		"[NodeAffinity]."; r.Message() != want {
		t.Errorf("got %q\nwant %q", r.Message(), want)
	}
	name := func(op v1.NodeSelectorOperator, values ...string) v1.NodeSelectorRequirement {
		return v1.NodeSelectorRequirement{Key: "metadata.name", Operator: op, Values: values}
	}
	arch := v1.NodeSelectorRequirement{Key: "arch", Operator: v1.NodeSelectorOpIn, Values: []string{"arm"}}
	labelled := []*v1.Node{newNode("a"), newNode("b", label("arch", "arm")), newNode("c")}
	for what, c := range map[string]struct {
		terms []v1.NodeSelectorTerm
		want  string
	}{
		"all names but one": {[]v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
			name(v1.NodeSelectorOpNotIn, "a")}}}, "b c"},
		"a name or a label": {[]v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
			name(v1.NodeSelectorOpIn, "a")}}, {MatchExpressions: []v1.NodeSelectorRequirement{arch}}}, "a b"},
		"a name and a label": {[]v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
			name(v1.NodeSelectorOpIn, "a")}, MatchExpressions: []v1.NodeSelectorRequirement{arch}}}, ""},
		"two names in one term": {[]v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
			name(v1.NodeSelectorOpIn, "a"), name(v1.NodeSelectorOpIn, "c")}}}, ""},
		"one of two names and another term": {[]v1.NodeSelectorTerm{
			{MatchFields: []v1.NodeSelectorRequirement{name(v1.NodeSelectorOpIn, "a"), name(v1.NodeSelectorOpNotIn,
				"a")}}, {MatchFields: []v1.NodeSelectorRequirement{name(v1.NodeSelectorOpIn, "c")}}}, "c"},
	} {
		p := named("a")
		p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms = c.terms
		for form, r := range bothWays(p, expect.Value(nodeaffinity.New(nil)), snapshot.Of(labelled, nil)) {
			var fits []string
			if r.Scheduled() {
				for _, s := range r.Scores(len(labelled)) {
					fits = append(fits, s.Node)
				}
			}
			slices.Sort(fits)
			if got := strings.Join(fits, " "); got != c.want {
				t.Errorf("%s, %s: fits on %q, want on %q", what, form, got, c.want)
			}
		}
	}
}

func spread(maxSkew int32, key string, when v1.UnsatisfiableConstraintAction,
	change ...func(*v1.TopologySpreadConstraint)) func(*v1.Pod) {
	return func(p *v1.Pod) {
		c := v1.TopologySpreadConstraint{MaxSkew: maxSkew, TopologyKey: key, WhenUnsatisfiable: when,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
		for _, f := range change {
			f(&c)
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	}
}

// row: FIL-19, FIL-20, FIL-22
func TestPodTopologySpreadStatuses(t *testing.T) {
	web := withPodLabels("app=web")
	nodes := []*v1.Node{newNode("a", label("zone", "1")), newNode("b", label("zone", "2")),
		newNode("c", label("zone", "3")), newNode("d")}
	pods := []*v1.Pod{
		newPod("w1", onNode("a"), web), newPod("w2", onNode("b"), web),
		newPod("other", onNode("c"), withPodLabels("app=db")),
		newPod("elsewhere", onNode("c"), web, func(p *v1.Pod) { p.Namespace = "ns2" }),
		newPod("leaving", onNode("c"), web, func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} }),
	}
	pl := podtopologyspread.New(nil, nil)
	both := bothWays(newPod("p", web, spread(1, "zone", v1.DoNotSchedule)), pl, snapshot.Of(nodes, pods))
	full := "Unschedulable: node(s) didn't match pod topology spread constraints | zone=%s has 1 matching Pods, the " +
		"least of any is 0: skew would be 2, at most 1 allowed | make room in the domains of zone with fewer Pods, " +
		"raise maxSkew, or use whenUnsatisfiable: ScheduleAnyway"
	for node, want := range map[string]string{
		"a": strings.ReplaceAll(full, "%s", "1"), "b": strings.ReplaceAll(full, "%s", "2"), "c": "fits",
		"d": "UnschedulableAndUnresolvable: node(s) didn't match pod topology spread constraints (missing required " +
			"label) | no label zone | kubectl label node d zone=VALUE",
	} {
		for form, r := range both {
			if got := statusText(r, node); got != want {
				t.Errorf("%s, %s:\n got %s\nwant %s", node, form, got, want)
			}
		}
	}
	for name, c := range map[string]struct {
		p    *v1.Pod
		want string
	}{
		"a Pod that does not match itself": {newPod("p", spread(1, "zone", v1.DoNotSchedule)), "a b c"},
		"larger skew":                      {newPod("p", web, spread(2, "zone", v1.DoNotSchedule)), "a b c"},
		"too few domains": {
			newPod("p", web,
				spread(1, "zone", v1.DoNotSchedule,
					func(c *v1.TopologySpreadConstraint) { c.MinDomains = new(int32(4)) })), "c"},
		"ScheduleAnyway never refuses": {newPod("p", web, spread(1, "zone", v1.ScheduleAnyway)), "a b c d"},
		"affinity takes zone 3 out": {newPod("p", web, spread(1, "zone", v1.DoNotSchedule),
			func(p *v1.Pod) { p.Spec.Affinity = notZone3() }), "a b c"},
		"unless the policy says no": {
			newPod("p", web,
				spread(1, "zone", v1.DoNotSchedule,
					func(c *v1.TopologySpreadConstraint) { c.NodeAffinityPolicy = new(v1.NodeInclusionPolicyIgnore) }),
				func(p *v1.Pod) { p.Spec.Affinity = notZone3() }), "c"},
		"match label keys narrow the count": {newPod("p", withPodLabels("app=web", "rev=2"),
			spread(1, "zone", v1.DoNotSchedule,
				func(c *v1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"rev"} })), "a b c"},
	} {
		for form, r := range bothWays(c.p, pl, snapshot.Of(nodes, pods)) {
			if got := fitsOn(r, nodes); got != c.want {
				t.Errorf("%s, %s: fits on %s, want %s", name, form, got, c.want)
			}
		}
	}
}

// Of zones 1 and 1, of racks 2 and 0: each constraint counts for itself, hard ones refuse whatever
// stands beside them, and the numbers are bounds.
//
// row: FIL-19, FIL-20, FIL-22
func TestEachOfSeveralConstraintsCounts(t *testing.T) {
	web, hard, soft := withPodLabels("app=web"), v1.DoNotSchedule, v1.ScheduleAnyway
	atLeast := func(n int32) func(*v1.TopologySpreadConstraint) {
		return func(c *v1.TopologySpreadConstraint) { c.MinDomains = &n }
	}
	either := func(c *v1.TopologySpreadConstraint) {
		c.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"web", "db"}}}}
	}
	database := func(c *v1.TopologySpreadConstraint) {
		c.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	}
	nodes := []*v1.Node{newNode("a", label("zone", "1"), label("rack", "1")),
		newNode("b", label("zone", "2"), label("rack", "1")), newNode("c", label("zone", "2"), label("rack", "2"))}
	pods := []*v1.Pod{newPod("w1", onNode("a"), web), newPod("w2", onNode("b"), web),
		newPod("db", onNode("c"), withPodLabels("app=db"))}
	for name, c := range map[string]struct {
		p    *v1.Pod
		want string
	}{
		"the zones alone":              {newPod("p", web, spread(1, "zone", hard)), "a b c"},
		"the racks alone":              {newPod("p", web, spread(1, "rack", hard)), "c"},
		"one more is allowed":          {newPod("p", web, spread(2, "rack", hard)), "c"},
		"two more are allowed":         {newPod("p", web, spread(3, "rack", hard)), "a b c"},
		"the second of two":            {newPod("p", web, spread(1, "zone", hard), spread(1, "rack", hard)), "c"},
		"the first of two":             {newPod("p", web, spread(1, "rack", hard), spread(1, "zone", hard)), "c"},
		"both soft":                    {newPod("p", web, spread(1, "rack", soft), spread(1, "zone", soft)), "a b c"},
		"a soft one after a hard one":  {newPod("p", web, spread(1, "zone", hard), spread(1, "rack", soft)), "a b c"},
		"a soft one before a hard one": {newPod("p", web, spread(1, "zone", soft), spread(1, "rack", hard)), "c"},
		"Pods of either label":         {newPod("p", web, spread(1, "zone", hard, either)), "a"},
		"each with its own selector": {
			newPod("p", web, spread(1, "zone", hard), spread(1, "rack", hard, database)), "a b c"},
		"each with its own, the other way": {
			newPod("p", web, spread(1, "rack", hard), spread(1, "zone", hard, either)), ""},
		"as many domains as there are":   {newPod("p", web, spread(1, "zone", hard, atLeast(2))), "a b c"},
		"more domains than there are":    {newPod("p", web, spread(1, "zone", hard, atLeast(3))), ""},
		"a key that some nodes have not": {newPod("p", web, spread(1, "zone", hard), spread(1, "row", hard)), ""},
	} {
		for form, r := range bothWays(c.p, podtopologyspread.New(nil, nil), snapshot.Of(nodes, pods)) {
			if got := fitsOn(r, nodes); got != c.want {
				t.Errorf("%s, %s: fits on %q, want on %q", name, form, got, c.want)
			}
		}
	}
}

// Pods on a node that lacks one of several topology keys do not count for the others either.
//
// row: FIL-20
func TestNodesWithoutAllKeysAreNotCounted(t *testing.T) {
	web, hard := withPodLabels("app=web"), v1.DoNotSchedule
	nodes := []*v1.Node{newNode("a", label("zone", "1"), label("rack", "1")),
		newNode("b", label("zone", "2"), label("rack", "1")), newNode("d", label("zone", "1"))}
	pods := []*v1.Pod{newPod("w1", onNode("d"), web), newPod("w2", onNode("d"), web)}
	for name, c := range map[string]struct {
		p    *v1.Pod
		want string
	}{
		"one key, which it has":  {newPod("p", web, spread(1, "zone", hard)), "b"},
		"two keys, it lacks one": {newPod("p", web, spread(1, "zone", hard), spread(1, "rack", hard)), "a b"},
		"the other way":          {newPod("p", web, spread(1, "rack", hard), spread(1, "zone", hard)), "a b"},
		"of which one is soft": {newPod("p", web, spread(1, "zone", hard),
			spread(1, "rack", v1.ScheduleAnyway)), "b"},
	} {
		for form, r := range bothWays(c.p, podtopologyspread.New(nil, nil), snapshot.Of(nodes, pods)) {
			if got := fitsOn(r, nodes); got != c.want {
				t.Errorf("%s, %s: fits on %q, want on %q", name, form, got, c.want)
			}
		}
	}
}

// A node with a taint that the Pod does not tolerate is a domain, unless nodeTaintsPolicy is Honor.
//
// row: FIL-19, FIL-20
func TestTaintsOfDomains(t *testing.T) {
	honor, ignore := v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore
	policy := func(p *v1.NodeInclusionPolicy) func(*v1.TopologySpreadConstraint) {
		return func(c *v1.TopologySpreadConstraint) { c.NodeTaintsPolicy = p }
	}
	web, hard := withPodLabels("app=web"), v1.DoNotSchedule
	tolerant := tolerate(v1.Toleration{Key: "x", Operator: v1.TolerationOpExists})
	for effect, domain := range map[string]bool{"NoSchedule": false, "NoExecute": false, "PreferNoSchedule": true} {
		nodes := []*v1.Node{newNode("a", label("zone", "1")), newNode("b", label("zone", "2")),
			newNode("t", label("zone", "3"), taint("x:"+effect))}
		pods := []*v1.Pod{newPod("w1", onNode("a"), web), newPod("w2", onNode("b"), web)}
		honored := "a b t"
		if domain {
			honored = "t"
		}
		for name, c := range map[string]struct {
			p    *v1.Pod
			want string
		}{
			"not set":                {newPod("p", web, spread(1, "zone", hard)), "t"},
			"Ignore":                 {newPod("p", web, spread(1, "zone", hard, policy(&ignore))), "t"},
			"Honor":                  {newPod("p", web, spread(1, "zone", hard, policy(&honor))), honored},
			"Honor, it is tolerated": {newPod("p", web, tolerant, spread(1, "zone", hard, policy(&honor))), "t"},
		} {
			for form, r := range bothWays(c.p, podtopologyspread.New(nil, nil), snapshot.Of(nodes, pods)) {
				if got := fitsOn(r, nodes); got != c.want {
					t.Errorf("%s, %s, %s: fits on %q, want on %q", effect, name, form, got, c.want)
				}
			}
		}
	}
}

// The counts follow Pods that come, go, end and change their labels, whether every cycle counts
// anew or what was counted is kept.
//
// row: FIL-19, FIL-20
func TestSpreadFollowsWhatHappens(t *testing.T) {
	for form, kept := range map[string]*schedule.EquivalenceCache{"counted anew": nil, "kept": {}} {
		t.Run(form, func(t *testing.T) {
			cache := snapshot.NewCache()
			nodes := []*v1.Node{newNode("a", label("zone", "1")), newNode("a2", label("zone", "1")),
				newNode("b", label("zone", "2")), newNode("c", label("zone", "3"))}
			for _, n := range nodes {
				cache.SetNode(n)
			}
			web, db := withPodLabels("app=web"), withPodLabels("app=db")
			pluginSet := schedule.NewPluginSet("test", schedule.WeightedPlugin{Plugin: podtopologyspread.New(nil, nil)})
			p := newPod("p", web, spread(1, "zone", v1.DoNotSchedule))
			fits := func(step, want string) {
				t.Helper()
				r := schedule.SchedulePod(t.Context(), schedule.Input{Pod: p, Snapshot: cache.UpdateSnapshot(),
					Plugins: pluginSet, Cache: kept})
				if got := fitsOn(r, nodes); got != want {
					t.Errorf("%s: fits on %q, want on %q", step, got, want)
				}
			}
			fits("nobody there", "a a2 b c")
			cache.SetPod(newPod("db", onNode("c"), db))
			fits("one of other labels in 3", "a a2 b c")
			cache.SetPod(newPod("w1", onNode("a"), web))
			fits("1, 0, 0", "b c")
			cache.SetPod(newPod("w2", onNode("b"), web))
			fits("1, 1, 0", "c")
			cache.SetPod(newPod("w3", onNode("c"), web))
			fits("1, 1, 1", "a a2 b c")
			cache.SetPod(newPod("w4", onNode("a2"), web))
			fits("2, 1, 1: both nodes of 1 count", "b c")
			cache.SetPod(newPod("w4", onNode("a2"), db))
			fits("1, 1, 1: one has other labels now", "a a2 b c")
			cache.RemovePod("w2")
			fits("1, 0, 1: one is gone", "b")
			cache.SetPod(newPod("w3", onNode("c"), web, func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} }))
			fits("1, 0, 0: one is going", "b c")
		})
	}
}

func notZone3() *v1.Affinity {
	return &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{
			{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpNotIn,
				Values: []string{"3"}}}}}}}}
}

// row: SCO-04, SCO-05, SCO-06, SCO-08, SCO-09, SCO-10, FIL-22
// row: SCO-01
func TestScores(t *testing.T) {
	shape := &config.ScoringStrategy{Type: config.RequestedToCapacityRatio,
		Resources: []config.ResourceSpec{{Name: "cpu", Weight: 3}, {Name: "memory", Weight: 1}},
		RequestedToCapacityRatio: &config.RequestedToCapacityRatioParam{
			Shape: []config.UtilizationShapePoint{{Utilization: 0, Score: 0}, {Utilization: 100, Score: 10}}}}
	most := &config.ScoringStrategy{Type: config.MostAllocated,
		Resources: []config.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}}}
	balanced := noderesources.NewBalanced(&config.NodeResourcesBalancedAllocationArgs{
		Resources: []config.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}}})
	prefer := func(weight int32, key string) v1.PreferredSchedulingTerm {
		return v1.PreferredSchedulingTerm{Weight: weight,
			Preference: v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{
				{Key: key, Operator: v1.NodeSelectorOpExists}}}}
	}
	held := func(mb int64) func(*v1.Node) {
		return func(n *v1.Node) {
			n.Status.Images = []v1.ContainerImage{{Names: []string{"img:latest"}, SizeBytes: mb * 1024 * 1024}}
		}
	}
	images := func(mb map[string]int64) func(*v1.Node) { // by the second of an image's names
		return func(n *v1.Node) {
			for name, size := range mb {
				n.Status.Images = append(n.Status.Images, v1.ContainerImage{Names: []string{"other/" + name, name},
					SizeBytes: size * 1024 * 1024})
			}
		}
	}
	twoImages := newPod("p", func(p *v1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "d", Image: "second:2"})
	})
	two := []*v1.Node{newNode("a"), newNode("b")}
	half := newPod("q", onNode("a"), requests("cpu=2", "memory=4Gi"))
	p := newPod("p", requests("cpu=1", "memory=2Gi"))
	for name, c := range map[string]struct {
		pl    framework.Plugin
		p     *v1.Pod
		nodes []*v1.Node
		pods  []*v1.Pod
		want  map[string][2]int64 // raw and normalised
	}{
		"least allocated": {expect.Value(noderesources.NewFit(fitArgs(nil))), p, two, []*v1.Pod{half},
			map[string][2]int64{"a": {25, 25}, "b": {75, 75}}},
		"most allocated": {expect.Value(noderesources.NewFit(fitArgs(most))), p, two, []*v1.Pod{half},
			map[string][2]int64{"a": {75, 75}, "b": {25, 25}}},
		// cpu 25 and memory 75 on a, 75 and 50 on b
		"least allocated, each resource": {expect.Value(noderesources.NewFit(fitArgs(nil))),
			newPod("p", requests("cpu=1", "memory=4Gi")), []*v1.Node{newNode("a", allocatable("memory=16Gi")),
				newNode("b")}, []*v1.Pod{newPod("q", onNode("a"), requests("cpu=2", "memory=0"))},
			map[string][2]int64{"a": {50, 50}, "b": {62, 62}}},
		"most allocated, each resource": {expect.Value(noderesources.NewFit(fitArgs(most))),
			newPod("p", requests("cpu=1", "memory=4Gi")), []*v1.Node{newNode("a", allocatable("memory=16Gi")),
				newNode("b")}, []*v1.Pod{newPod("q", onNode("a"), requests("cpu=2", "memory=0"))},
			map[string][2]int64{"a": {50, 50}, "b": {37, 37}}},
		// (50*3+25)/4 = 43.75
		"shape, weighted": {expect.Value(noderesources.NewFit(fitArgs(shape))),
			newPod("p", requests("cpu=2", "memory=2Gi")),
			two, nil, map[string][2]int64{"a": {44, 44}, "b": {44, 44}}},
		// 100m of 4, 200Mi of 8Gi: (97+97)/2
		"defaults for empty": {expect.Value(noderesources.NewFit(fitArgs(nil))), newPod("p"), two, nil,
			map[string][2]int64{"a": {97, 97}, "b": {97, 97}}},
		"balance kept": {balanced, p, two, nil, map[string][2]int64{"a": {75, 75}, "b": {75, 75}}},
		// ±0.25 of deviation
		"balance worse and better": {balanced, newPod("p", requests("cpu=2")), two,
			[]*v1.Pod{newPod("q", onNode("a"), requests("memory=4Gi"))},
			map[string][2]int64{"a": {87, 87}, "b": {62, 62}}},
		// a: 81.1 after 87.5 counts as 81 after 87
		"balance, rounded before": {balanced, newPod("p", requests("cpu=510m")), two,
			[]*v1.Pod{newPod("q", onNode("a"), requests("cpu=1"))}, map[string][2]int64{"a": {72, 72}, "b": {71, 71}}},
		"few soft taints": {tainttoleration.New(), p,
			[]*v1.Node{newNode("a", taint("x:PreferNoSchedule"), taint("y:PreferNoSchedule")),
				newNode("b", taint("x:PreferNoSchedule")), newNode("c")}, nil,
			map[string][2]int64{"a": {2, 0}, "b": {1, 50}, "c": {0, 100}}},
		"soft taints that are tolerated": {tainttoleration.New(), newPod("p",
			tolerate(v1.Toleration{Key: "x", Operator: v1.TolerationOpExists}),
			tolerate(v1.Toleration{Key: "y", Operator: v1.TolerationOpExists, Effect: v1.TaintEffectPreferNoSchedule}),
			tolerate(v1.Toleration{Key: "z", Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule})),
			[]*v1.Node{newNode("a", taint("x:PreferNoSchedule"), taint("y:PreferNoSchedule")),
				newNode("b", taint("x:NoSchedule"), taint("z:NoSchedule")), newNode("c", taint("z:PreferNoSchedule"))},
			nil, map[string][2]int64{"a": {0, 100}, "b": {0, 100}, "c": {1, 0}}},
		"preferred terms by weight": {expect.Value(nodeaffinity.New(nil)), newPod("p", func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{
				NodeAffinity: &v1.NodeAffinity{
					PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{prefer(80, "ssd"),
						prefer(20, "new")}}}
		}), []*v1.Node{newNode("a", label("ssd", "")), newNode("b", label("new", "")), newNode("c"),
			newNode("d", label("ssd", ""), label("new", ""))}, nil,
			map[string][2]int64{"a": {80, 80}, "b": {20, 20}, "c": {0, 0}, "d": {100, 100}}},
		"preferred terms of the profile, too": {expect.Value(nodeaffinity.New(&config.NodeAffinityArgs{
			AddedAffinity: &v1.NodeAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{prefer(30, "new")}}})),
			newPod("p", func(p *v1.Pod) {
				p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
					PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{prefer(10, "ssd")}}}
			}), []*v1.Node{newNode("a", label("ssd", "")), newNode("b", label("new", "")), newNode("c")}, nil,
			map[string][2]int64{"a": {10, 33}, "b": {30, 100}, "c": {0, 0}}},
		// 1000MB * 1/2, less 23MB, of 977MB
		"image on one of two": {imagelocality.New(), p, []*v1.Node{newNode("a", held(1000)), newNode("b")}, nil,
			map[string][2]int64{"a": {48, 48}, "b": {0, 0}}},
		// 500MB of the one and 23MB of the other, which is too little alone, of two images
		"each container's image": {imagelocality.New(), twoImages,
			[]*v1.Node{newNode("a", images(map[string]int64{"img:latest": 1000, "second:2": 500})),
				newNode("b", images(map[string]int64{"second:2": 500})),
				newNode("c", images(map[string]int64{"third:3": 500})), newNode("d")}, nil,
			map[string][2]int64{"a": {24, 24}, "b": {11, 11}, "c": {0, 0}, "d": {0, 0}}},
		"image on both": {imagelocality.New(), p,
			[]*v1.Node{newNode("a", held(1000)), newNode("b", held(1000))}, nil,
			map[string][2]int64{"a": {100, 100}, "b": {100, 100}}},
		"emptier zone, softly": {podtopologyspread.New(nil, nil),
			newPod("p", withPodLabels("app=web"), spread(1, "zone", v1.ScheduleAnyway)),
			[]*v1.Node{newNode("a", label("zone", "1")), newNode("b", label("zone", "2")), newNode("c")},
			[]*v1.Pod{newPod("w", onNode("a"), withPodLabels("app=web"))},
			map[string][2]int64{"a": {1, 0}, "b": {0, 100}, "c": {0, 0}}},
		// of two domains each: ln(2+2) for each matching Pod
		"emptier zone and rack, softly": {podtopologyspread.New(nil, nil),
			newPod("p", withPodLabels("app=web"), spread(1, "zone", v1.ScheduleAnyway),
				spread(1, "rack", v1.ScheduleAnyway)),
			[]*v1.Node{newNode("a", label("zone", "1"), label("rack", "1")),
				newNode("b", label("zone", "2"), label("rack", "1")),
				newNode("c", label("zone", "2"), label("rack", "2"))},
			[]*v1.Pod{newPod("w", onNode("a"), withPodLabels("app=web"))},
			map[string][2]int64{"a": {3, 0}, "b": {1, 66}, "c": {0, 100}}},
		"system default spread": {
			podtopologyspread.New(nil,
				func(*v1.Pod) labels.Selector { return labels.SelectorFromSet(labels.Set{"app": "web"}) }),
			newPod("p", withPodLabels("app=web")), two, []*v1.Pod{newPod("w", onNode("a"), withPodLabels("app=web"))},
			map[string][2]int64{"a": {3, 66}, "b": {2, 100}}},
	} {
		for form, r := range bothWays(c.p, c.pl, snapshot.Of(c.nodes, c.pods)) {
			got := map[string][2]int64{}
			for _, s := range r.Scores(len(c.nodes)) {
				if len(s.Parts) == 1 {
					got[s.Node] = [2]int64{s.Parts[0].Raw, s.Parts[0].Norm}
				}
			}
			for node, want := range c.want {
				if got[node] != want {
					t.Errorf("%s, %s: %s scores %v, want %v (%s)", name, form, node, got[node], want, r.Message())
				}
			}
		}
	}
}
