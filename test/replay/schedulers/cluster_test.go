package schedulers

import (
	"fmt"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/test/wrappers"
)

const gpu = "example.com/gpu"

var (
	zones      = []string{"z1", "z2", "z3"}
	colors     = []string{"red", "green", "blue"}
	namespaces = []string{"alike-a", "alike-b"}
	classes    = []string{"rank-1", "rank-2", "rank-3"} // of priority
	modest     = "modest"                               // a priority that never preempts
	waiting    = "waits"                                // a StorageClass that binds at the first consumer
	banned     = "banned"                               // begins the names of Pods whose bindings are refused
	began      = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

// objectGenerator makes everything of a cluster from one seed.
type objectGenerator struct{ *rand.Rand }

func roll(seed uint64) objectGenerator { return objectGenerator{rand.New(rand.NewPCG(seed, 37))} }

// oneIn is true once in n times.
func (d objectGenerator) oneIn(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d objectGenerator, of ...T) T { return of[d.IntN(len(of))] }

func singleLabel(key, value string) map[string]string { return map[string]string{key: value} }

func (d objectGenerator) node(i int) *v1.Node {
	name := fmt.Sprintf("n%d", i)
	labels := map[string]string{v1.LabelHostname: name, "gen": fmt.Sprint(1 + d.IntN(4))}
	if !d.oneIn(8) {
		labels[v1.LabelTopologyZone], labels[v1.LabelTopologyRegion] = pick(d, zones...), "r1"
	}
	if d.oneIn(2) {
		labels["disk"] = pick(d, "ssd", "hdd")
	}
	has := v1.ResourceList{
		v1.ResourceCPU:              resource.MustParse(pick(d, "1", "2", "4", "7300m")),
		v1.ResourceMemory:           resource.MustParse(pick(d, "1Gi", "2Gi", "3900Mi", "8Gi")),
		v1.ResourcePods:             resource.MustParse(pick(d, "3", "8", "110")),
		v1.ResourceEphemeralStorage: resource.MustParse(pick(d, "5Gi", "20Gi")),
	}
	if d.oneIn(3) {
		has[gpu] = resource.MustParse(pick(d, "1", "2", "4"))
	}
	n := wrappers.MakeNode().Name(name).Obj()
	n.Labels = labels
	n.Status.Capacity = has
	n.Status.Allocatable = has
	n.Spec.Unschedulable = d.oneIn(10)
	for _, key := range []string{"team", "spot"} {
		if d.oneIn(5) {
			n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: key, Value: pick(d, "", "x", "y"),
				Effect: pick(d, v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute,
					v1.TaintEffectPreferNoSchedule)})
		}
	}
	if d.oneIn(2) {
		n.Status.Images = []v1.ContainerImage{{Names: []string{"example.com/" + pick(d, colors...) + ":1"},
			SizeBytes: int64(1+d.IntN(900)) << 20}}
	}
	return n
}

// pod is a Pod with labels and requests, and nothing yet that limits where it may be.
func (d objectGenerator) pod(name string) *v1.Pod {
	no, now, color := false, int64(0), pick(d, colors...)
	p := wrappers.MakePod().Namespace(pick(d, namespaces...)).Name(name).
		Labels(singleLabel("app", color)).Obj()
	asks := v1.ResourceList{}
	for _, r := range []struct {
		name v1.ResourceName
		of   []string
	}{{v1.ResourceCPU, []string{"", "100m", "500m", "1", "1700m"}},
		{v1.ResourceMemory, []string{"", "100Mi", "600Mi", "1Gi"}},
		{v1.ResourceEphemeralStorage, []string{"", "", "", "", "3Gi"}},
		{gpu, []string{"", "", "", "", "", "", "1", "2"}}} {
		if q := pick(d, r.of...); q != "" {
			asks[r.name] = resource.MustParse(q)
		}
	}
	p.Spec = v1.PodSpec{AutomountServiceAccountToken: &no, TerminationGracePeriodSeconds: &now,
		Containers: []v1.Container{{Name: "c", Image: "example.com/" + pick(d, colors...) + ":1",
			Resources: v1.ResourceRequirements{Requests: asks}}}}
	if g, ok := asks[gpu]; ok {
		p.Spec.Containers[0].Resources.Limits = v1.ResourceList{gpu: g}
	}
	if d.oneIn(8) {
		p.Spec.InitContainers = []v1.Container{{Name: "i", Image: "example.com/init:1",
			Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(pick(d, "50m", "2", "4"))}}}}
	}
	if d.oneIn(6) {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: int32(8080 + d.IntN(2)),
			HostIP: pick(d, "", "127.0.0.1", "10.1.2.3"), Protocol: pick(d, v1.ProtocolTCP, v1.ProtocolUDP)}}
	}
	if d.oneIn(2) {
		p.Spec.PriorityClassName = pick(d, classes...)
	}
	return p
}

// runningPod is a Pod that runs on a node before the compared Pods are scheduled.
func (d objectGenerator) runningPod(i, nodes int) *v1.Pod {
	p := d.pod(fmt.Sprintf("resident-%d", i))
	p.Spec.NodeName = fmt.Sprintf("n%d", d.IntN(nodes))
	if d.oneIn(4) {
		p.Spec.Affinity = d.podAffinity()
	}
	start := metav1.NewTime(began.Add(time.Duration(d.IntN(1000)) * time.Minute))
	p.Status = v1.PodStatus{Phase: v1.PodRunning, StartTime: &start}
	return p
}

// newcomer is a Pod to be scheduled.
func (d objectGenerator) newcomer(name string, profiles []string) *v1.Pod {
	p := d.pod(name)
	p.Spec.SchedulerName = pick(d, profiles...)
	if d.oneIn(3) {
		p.Spec.Affinity = d.podAffinity()
	}
	if d.oneIn(3) {
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &v1.Affinity{}
		}
		p.Spec.Affinity.NodeAffinity = d.nodeAffinity()
	}
	if d.oneIn(5) {
		p.Spec.NodeSelector = pick(d, singleLabel("disk", "ssd"), singleLabel(v1.LabelTopologyZone, pick(d, zones...)),
			singleLabel("disk", "tape"))
	}
	if d.oneIn(3) {
		p.Spec.TopologySpreadConstraints = d.spread(p.Labels)
	}
	if d.oneIn(2) {
		p.Spec.Tolerations = d.tolerations()
	}
	switch d.IntN(24) {
	case 0:
		if p.Spec.SchedulerName == "few" {
			break // nobody there looks at gates
		}
		p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/wait"}, {Name: "example.com/more"}}[:1+
			d.IntN(2)]
	case 1:
		p.Spec.PriorityClassName = modest
	case 2, 3, 4:
		p.Spec.Volumes = []v1.Volume{
			{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
				ClaimName: pick(d, "bound-z1", "bound-z2", "bound-nowhere", "unbound-large", "missing", "lost",
					"alone")}}}}
	case 5, 6, 7, 8:
		p.Annotations = singleLabel(wants, d.volumeRequest())
	}
	return p
}

func (d objectGenerator) selector() *metav1.LabelSelector {
	if d.oneIn(4) {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: colors[:2]}}}
	}
	return &metav1.LabelSelector{MatchLabels: singleLabel("app", pick(d, colors...))}
}

func (d objectGenerator) term() v1.PodAffinityTerm {
	t := v1.PodAffinityTerm{LabelSelector: d.selector(), TopologyKey: pick(d, v1.LabelHostname, v1.LabelTopologyZone,
		v1.LabelTopologyZone, "disk")}
	switch d.IntN(6) {
	case 0:
		t.Namespaces = namespaces
	case 1:
		t.NamespaceSelector = &metav1.LabelSelector{}
	case 2:
		t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: singleLabel("team", "b")}
	case 3:
		t.MatchLabelKeys = []string{"app"}
		t.LabelSelector = &metav1.LabelSelector{}
	}
	return t
}

func (d objectGenerator) podAffinity() *v1.Affinity {
	rather := []v1.WeightedPodAffinityTerm{{Weight: int32(1 + d.IntN(100)), PodAffinityTerm: d.term()},
		{Weight: int32(1 + d.IntN(100)), PodAffinityTerm: d.term()}}[:1+d.IntN(2)]
	switch d.IntN(4) {
	case 0:
		return &v1.Affinity{
			PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
				d.term()}}}
	case 1:
		return &v1.Affinity{
			PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
				d.term()}}}
	case 2:
		return &v1.Affinity{PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: rather}}
	}
	return &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: rather}}
}

func (d objectGenerator) nodeTerm() v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{pick(d,
		v1.NodeSelectorRequirement{Key: "gen", Operator: v1.NodeSelectorOpGt, Values: []string{fmt.Sprint(d.IntN(4))}},
		v1.NodeSelectorRequirement{Key: "gen", Operator: v1.NodeSelectorOpLt,
			Values: []string{fmt.Sprint(1 + d.IntN(4))}},
		v1.NodeSelectorRequirement{Key: "disk", Operator: v1.NodeSelectorOpExists},
		v1.NodeSelectorRequirement{Key: "disk", Operator: v1.NodeSelectorOpDoesNotExist},
		v1.NodeSelectorRequirement{Key: "disk", Operator: v1.NodeSelectorOpNotIn, Values: []string{"hdd"}},
		v1.NodeSelectorRequirement{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn,
			Values: zones[:1+d.IntN(3)]})}}
}

func (d objectGenerator) nodeAffinity() *v1.NodeAffinity {
	out := &v1.NodeAffinity{}
	if d.oneIn(2) {
		terms := []v1.NodeSelectorTerm{d.nodeTerm(), d.nodeTerm()}[:1+d.IntN(2)]
		if d.oneIn(6) {
			terms = []v1.NodeSelectorTerm{
				{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn,
					Values: []string{fmt.Sprintf("n%d", d.IntN(12))}}}}}
		}
		out.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{NodeSelectorTerms: terms}
	}
	if out.RequiredDuringSchedulingIgnoredDuringExecution == nil || d.oneIn(2) {
		for range 1 + d.IntN(2) {
			out.PreferredDuringSchedulingIgnoredDuringExecution = append(
				out.PreferredDuringSchedulingIgnoredDuringExecution,
				v1.PreferredSchedulingTerm{Weight: int32(1 + d.IntN(100)), Preference: d.nodeTerm()})
		}
	}
	return out
}

func (d objectGenerator) spread(labels map[string]string) (out []v1.TopologySpreadConstraint) {
	for _, key := range []string{v1.LabelTopologyZone, v1.LabelHostname}[d.IntN(2):] {
		c := v1.TopologySpreadConstraint{MaxSkew: int32(1 + d.IntN(2)), TopologyKey: key,
			WhenUnsatisfiable: pick(d, v1.DoNotSchedule, v1.ScheduleAnyway),
			LabelSelector:     pick(d, &metav1.LabelSelector{MatchLabels: labels}, d.selector())}
		honor, ignore := v1.NodeInclusionPolicyHonor, v1.NodeInclusionPolicyIgnore
		switch d.IntN(5) {
		case 0:
			c.NodeTaintsPolicy = &honor
		case 1:
			c.NodeAffinityPolicy = &ignore
		case 2:
			if c.WhenUnsatisfiable == v1.DoNotSchedule {
				least := int32(1 + d.IntN(4))
				c.MinDomains = &least
			}
		case 3:
			c.LabelSelector, c.MatchLabelKeys = &metav1.LabelSelector{}, []string{"app"}
		}
		out = append(out, c)
	}
	return out
}

func (d objectGenerator) tolerations() []v1.Toleration {
	return []v1.Toleration{pick(d, v1.Toleration{Operator: v1.TolerationOpExists},
		v1.Toleration{Key: "team", Operator: v1.TolerationOpExists},
		v1.Toleration{Key: "spot", Operator: v1.TolerationOpEqual, Value: "x"},
		v1.Toleration{Key: "team", Operator: v1.TolerationOpExists, Effect: v1.TaintEffectPreferNoSchedule},
		v1.Toleration{Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpExists})}
}

func (d objectGenerator) budgets() (out []*policyv1.PodDisruptionBudget) {
	for i := range d.IntN(3) {
		none := intstr.FromInt32(0)
		out = append(out, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("budget-%d", i),
			Namespace: pick(d, namespaces...)},
			Spec:   policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &none, Selector: d.selector()},
			Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: int32(d.IntN(3))}})
	}
	return out
}

// volumes are claims as Pods name them, in every namespace, and what they are bound to; some are
// not.
func volumes() (claims []*v1.PersistentVolumeClaim, vols []*v1.PersistentVolume, class *storagev1.StorageClass) {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	class = &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: waiting},
		Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &mode}
	for _, ns := range namespaces {
		claim := func(name, size, class, volume string) *v1.PersistentVolumeClaim {
			c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns},
				Spec: v1.PersistentVolumeClaimSpec{
					AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, StorageClassName: &class,
					VolumeName: volume,
					Resources: v1.VolumeResourceRequirements{
						Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}}}}
			claims = append(claims, c)
			return c
		}
		bound := func(name, key, value string) {
			c := claim(name, "1Gi", "", name+"-"+ns)
			c.Annotations = singleLabel("pv.kubernetes.io/bind-completed", "yes")
			c.Status.Phase = v1.ClaimBound
			v := localVolume(name+"-"+ns, "1Gi", "", v1.NodeSelectorRequirement{Key: key, Operator: v1.NodeSelectorOpIn,
				Values: []string{value}})
			v.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: ns, Name: name}
			v.Status.Phase = v1.VolumeBound
			vols = append(vols, v)
		}
		bound("bound-z1", v1.LabelTopologyZone, "z1")
		bound("bound-z2", v1.LabelTopologyZone, "z2")
		bound("bound-nowhere", "disk", "tape")
		claim("unbound-large", "100Gi", waiting, "")
		claim("alone", "1Gi", "", "")
		claim("lost", "1Gi", "", "gone").Status.Phase = v1.ClaimLost
	}
	free := localVolume("free", "2Gi", waiting, v1.NodeSelectorRequirement{Key: "disk", Operator: v1.NodeSelectorOpIn,
		Values: []string{"ssd"}})
	free.Status.Phase = v1.VolumeAvailable
	return claims, append(vols, free), class
}

func localVolume(name, size, class string, on v1.NodeSelectorRequirement) *v1.PersistentVolume {
	return &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PersistentVolumeSpec{
		Capacity:    v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)},
		AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, StorageClassName: class,
		PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
		PersistentVolumeSource:        v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/mnt/" + name}},
		NodeAffinity: &v1.VolumeNodeAffinity{
			Required: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{on}}}}}}}
}
