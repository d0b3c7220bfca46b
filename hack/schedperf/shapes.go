package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// workload is a case of scheduler_perf: the same templates of nodes and Pods, with fewer Pods where
// upstream's numbers would take minutes.
type workload struct {
	name     string
	zones    int                 // of the nodes; 0: no zone label
	node     func(*v1.Node, int) // changes a node of the common template
	init     func(nodes int) int // number of initial Pods
	initPod  func(*v1.Pod, int)  // changes a Pod of the common template
	measured func(nodes int) int // Pods measured
	// maximum of measured Pods on that many nodes; nil: none
	room    func(nodes int) int
	pod     func(p *v1.Pod, i, nodes int) // changes a Pod of the common template
	waiting bool                          // the initial Pods are never bound
	evicts  bool                          // measured Pods need preemption
	// nodes, Pods and Services are created and deleted meanwhile
	churn  bool
	before func(ctx context.Context, b *testbed, nodes int) error  // creates what nodes offer
	setup  func(ctx context.Context, b *testbed, pod string) error // creates what a Pod needs
}

func per(share float64) func(int) int {
	return func(nodes int) int { return int(share * float64(nodes)) }
}

const hostname, zoneKey = v1.LabelHostname, v1.LabelTopologyZone

// namespaceLabels are the labels of all namespaces of a run.
var namespaceLabels = map[string]string{"team": "devops"}

func term(color, key string) v1.PodAffinityTerm {
	return v1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"color": color}},
		TopologyKey: key}
}

func inNamespaces(t v1.PodAffinityTerm) v1.PodAffinityTerm {
	t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: namespaceLabels}
	return t
}

func colored(color string, a v1.Affinity) func(*v1.Pod, int) {
	return func(p *v1.Pod, _ int) {
		p.Labels["color"] = color
		p.Spec.Affinity = &a
	}
}

func ignoringNodes(f func(*v1.Pod, int)) func(*v1.Pod, int, int) {
	return func(p *v1.Pod, i, _ int) { f(p, i) }
}

func podAffinity(t v1.PodAffinityTerm) v1.Affinity {
	return v1.Affinity{
		PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{t}}}
}

func antiAffinity(t v1.PodAffinityTerm) v1.Affinity {
	return v1.Affinity{
		PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{t}}}
}

func weightedTerms(t v1.PodAffinityTerm) []v1.WeightedPodAffinityTerm {
	return []v1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: t}}
}

func spreading(action v1.UnsatisfiableConstraintAction) func(*v1.Pod, int, int) {
	return func(p *v1.Pod, _, _ int) {
		p.Labels["color"] = "blue"
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 5, TopologyKey: zoneKey,
			WhenUnsatisfiable: action,
			LabelSelector:     &metav1.LabelSelector{MatchLabels: map[string]string{"color": "blue"}}}}
	}
}

func requesting(cpu string, priority int32) func(*v1.Pod, int) {
	return func(p *v1.Pod, _ int) {
		p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse(cpu)
		p.Spec.Priority = &priority
	}
}

var (
	preferredAffinity = colored("red",
		v1.Affinity{
			PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weightedTerms(
				term("red", hostname))}})
	preferredAntiAffinity = colored("yellow",
		v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weightedTerms(
			term("yellow", hostname))}})
	requiredAffinity            = colored("blue", podAffinity(term("blue", zoneKey)))
	requiredAntiAffinity        = colored("green", antiAffinity(term("green", hostname)))
	affinityOtherNamespaces     = colored("blue", podAffinity(inNamespaces(term("blue", zoneKey))))
	antiAffinityOtherNamespaces = colored("green", antiAffinity(inNamespaces(term("green", hostname))))
	inZone                      = func(p *v1.Pod, _ int) {
		p.Spec.Affinity = &v1.Affinity{
			NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{
					{MatchExpressions: []v1.NodeSelectorRequirement{{Key: zoneKey, Operator: v1.NodeSelectorOpIn,
						Values: []string{"zone1", "zone2"}}}}}}}}
	}
)

// mounting mounts the claim with the Pod's name.
func mounting(p *v1.Pod, _ int) {
	p.Spec.Volumes = []v1.Volume{
		{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
			ClaimName: p.Name}}}}
}

// workloads are named as in scheduler_perf.
var workloads = []workload{
	{name: "SchedulingBasic", init: per(0.2), measured: per(2)},
	{name: "SchedulingNodeAffinity", zones: 1, init: per(1), initPod: inZone, measured: per(2),
		pod: ignoringNodes(inZone)},
	{name: "SchedulingPreferredPodAffinity", init: per(1), initPod: preferredAffinity, measured: per(1),
		pod: ignoringNodes(preferredAffinity)},
	{name: "SchedulingPreferredPodAntiAffinity", init: per(1), initPod: preferredAntiAffinity, measured: per(1),
		pod: ignoringNodes(preferredAntiAffinity)},
	{name: "SchedulingPodAffinity", zones: 1, init: per(1), initPod: requiredAffinity, measured: per(1),
		pod: ignoringNodes(requiredAffinity)},
	{name: "SchedulingPodAntiAffinity", init: per(0.2), initPod: requiredAntiAffinity, measured: per(0.4),
		room: per(0.8), pod: ignoringNodes(requiredAntiAffinity)},
	{name: "RequiredPodAffinityWithNSSelector", zones: 1, init: per(1), initPod: affinityOtherNamespaces,
		measured: per(0.4), pod: ignoringNodes(affinityOtherNamespaces)},
	{name: "RequiredPodAntiAffinityWithNSSelector", init: per(0.5), initPod: antiAffinityOtherNamespaces,
		measured: per(0.4), room: per(0.5), pod: ignoringNodes(antiAffinityOtherNamespaces)},
	{name: "TopologySpreading", zones: 3, init: per(1), measured: per(1), pod: spreading(v1.DoNotSchedule)},
	{name: "PreferredTopologySpreading", zones: 3, init: per(1), measured: per(1), pod: spreading(v1.ScheduleAnyway)},
	{name: "Unschedulable", init: per(0.02), initPod: requesting("9", 0), waiting: true, measured: per(2)},
	{name: "SchedulingWithMixedChurn", churn: true, measured: per(2)},
	{name: "PreemptionAsync", init: per(4), initPod: requesting("900m", 0), evicts: true, measured: per(0.2),
		room: per(0.2), pod: ignoringNodes(requesting("3", 10))},
	{name: "SchedulingDaemonset", measured: per(2), pod: func(p *v1.Pod, i, nodes int) {
		p.Spec.Affinity = &v1.Affinity{
			NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{
					{MatchFields: []v1.NodeSelectorRequirement{
						{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn,
							Values: []string{nodeName(i % nodes)}}}}}}}}
	}},
	{name: "SchedulingWhileGated", init: per(2), waiting: true, initPod: func(p *v1.Pod, _ int) {
		p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/hold"}}
	}, measured: per(2)},
	{name: "SchedulingCSIPVs", init: per(0.2), measured: per(0.4), before: drivers, setup: volume,
		pod: ignoringNodes(mounting)},
	{name: "SchedulingCSIPVsWithoutLimits", init: per(0.2), measured: per(0.4), setup: volume,
		pod: ignoringNodes(mounting)},
	{name: "SchedulingMigratedInTreePVs", init: per(0.2), measured: per(0.4), before: csiMigration, setup: inTree,
		pod: ignoringNodes(mounting)},
	{name: "SchedulingWithResourceClaim", measured: per(0.4), room: per(2), before: withDevices, setup: deviceClaim,
		pod: func(p *v1.Pod, i, _ int) {
			p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "device", ResourceClaimName: &p.Name}}
			p.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "device"}}
		}},
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// makeNode returns scheduler_perf's node: 4 CPU, 32 GiB, 110 Pods.
func (s *workload) makeNode(i int) *v1.Node {
	room := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("32Gi"),
		v1.ResourcePods: resource.MustParse("110")}
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName(i), Labels: map[string]string{hostname: nodeName(i)}},
		Status: v1.NodeStatus{Capacity: room, Allocatable: room,
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "Fake"}}},
	}
	if s.zones > 0 {
		n.Labels[zoneKey] = fmt.Sprintf("zone%d", 1+i%s.zones)
	}
	if s.node != nil {
		s.node(n, i)
	}
	return n
}

// makePod returns scheduler_perf's Pod: 100m, 500 MB.
func makePod(namespace, name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name),
			Labels: map[string]string{"run": "schedperf"}},
		Spec: v1.PodSpec{SchedulerName: "default-scheduler", TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []v1.Container{{
				Name: "pause", Image: "registry.k8s.io/pause:3.10",
				Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m"),
					v1.ResourceMemory: resource.MustParse("500Mi")}},
			}}},
	}
}

func (s *workload) makeInit(i int) *v1.Pod {
	p := makePod("sched-0", fmt.Sprintf("init-%d", i))
	if s.initPod != nil {
		s.initPod(p, i)
	}
	return p
}

func (s *workload) makeMeasured(i, nodes int) *v1.Pod {
	p := makePod("sched-1", fmt.Sprintf("pod-%d", i))
	if s.pod != nil {
		s.pod(p, i, nodes)
	}
	// terms without a namespace mean the Pod's own; upstream's name both
	if a := p.Spec.Affinity; a != nil {
		eachTerm(a, func(t *v1.PodAffinityTerm) {
			if t.NamespaceSelector == nil {
				t.Namespaces = []string{"sched-0", "sched-1"}
			}
		})
	}
	return p
}

func eachTerm(a *v1.Affinity, do func(*v1.PodAffinityTerm)) {
	if x := a.PodAffinity; x != nil {
		for i := range x.RequiredDuringSchedulingIgnoredDuringExecution {
			do(&x.RequiredDuringSchedulingIgnoredDuringExecution[i])
		}
		for i := range x.PreferredDuringSchedulingIgnoredDuringExecution {
			do(&x.PreferredDuringSchedulingIgnoredDuringExecution[i].PodAffinityTerm)
		}
	}
	if x := a.PodAntiAffinity; x != nil {
		for i := range x.RequiredDuringSchedulingIgnoredDuringExecution {
			do(&x.RequiredDuringSchedulingIgnoredDuringExecution[i])
		}
		for i := range x.PreferredDuringSchedulingIgnoredDuringExecution {
			do(&x.PreferredDuringSchedulingIgnoredDuringExecution[i].PodAffinityTerm)
		}
	}
}
