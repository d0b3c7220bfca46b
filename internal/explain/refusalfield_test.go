package explain

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// Each scheduler plugin's refusal blames the exact field with its own content and what would do.
func TestRefusalsBlameTheField(t *testing.T) {
	class := "fast"
	app := metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	term := []corev1.PodAffinityTerm{{TopologyKey: "zone", LabelSelector: &app}}
	anti := &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: term}}
	at := func(key string, values ...string) *corev1.Affinity {
		terms := []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key,
			Operator: corev1.NodeSelectorOpIn, Values: values}}}}
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms}}}
	}
	claim := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "other", Labels: app.MatchLabels},
		Spec: corev1.PodSpec{NodeName: "n1", Affinity: anti, Containers: []corev1.Container{{Name: "x",
			Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}}}}}
	for _, c := range []struct {
		name, plugin, message string
		set                   func(*corev1.Pod)
		short                 []journal.Shortage
		field, value, want    string
		object                string
	}{
		{"cpu", "NodeResourcesFit", "Insufficient cpu", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("3")}
		}, []journal.Shortage{{Resource: "cpu", Requested: 3000, Used: 500, Available: 2000}},
			"spec.containers[0].resources.requests.cpu", "3", "1500m", "web"},
		{"overhead", "NodeResourcesFit", "Insufficient memory", func(p *corev1.Pod) {
			p.Spec.Overhead = corev1.ResourceList{"memory": resource.MustParse("4Gi")}
		}, []journal.Shortage{{Resource: "memory", Requested: 4 << 30, Available: 1 << 30}}, "spec.overhead.memory",
			"4Gi",
			"1Gi", "web"},
		{"number of Pods", "NodeResourcesFit", "Too many pods", nil,
			[]journal.Shortage{{Resource: "pods", Requested: 1, Used: 110, Available: 110}},
			"status.allocatable.pods", "110",
			"111", "n1"},
		{"no toleration", "TaintToleration", "", nil, nil, "spec.tolerations", "", "team=batch:NoSchedule", "web"},
		{"toleration of another value", "TaintToleration", "", func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "team", Value: "web", Effect: corev1.TaintEffectNoSchedule}}
		}, nil, "spec.tolerations[0]", "team=web:NoSchedule", "team=batch:NoSchedule", "web"},
		{"node selector", "NodeAffinity", "", func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{"disk": "quick"}
		}, nil, "spec.nodeSelector[disk]", "disk=quick", "slow", "web"},
		{"node affinity", "NodeAffinity", "", func(p *corev1.Pod) { p.Spec.Affinity = at("disk", "quick", "big") }, nil,
			"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]." +
				"matchExpressions[0].values", "disk In quick,big", "slow", "web"},
		{"host port", "NodePorts", "", func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 9090}, {HostPort: 8080}}
		}, nil, "spec.containers[0].ports[1].hostPort", "8080", "", "web"},
		{"spread over a key that the node lacks", "PodTopologySpread", "", func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "rack",
				WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &app}}
		}, nil, "spec.topologySpreadConstraints[0].topologyKey", "rack", "", "web"},
		{"own anti-affinity", "InterPodAffinity", "node(s) didn't match pod anti-affinity rules", func(p *corev1.Pod) {
			p.Spec.Affinity = anti
		}, nil, "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector",
			"app=web", "", "web"},
		{"anti-affinity of another", "InterPodAffinity", "node(s) didn't satisfy existing pods anti-affinity rules",
			nil, nil,
			"spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector",
			"app=web", "",
			"other"},
		{"volume", "VolumeBinding", "", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: claim}}
		}, nil, "spec.volumes[0].persistentVolumeClaim.claimName", "data", "", "web"},
		{"devices", "DynamicResources", "", func(p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "d", ResourceClaimTemplateName: &class}}
		}, nil, "spec.resourceClaims[0].resourceClaimTemplateName", "fast", "", "web"},
		{"node name", "NodeName", "", func(p *corev1.Pod) { p.Spec.NodeName = "n9" }, nil, "spec.nodeName", "n9", "",
			"web"},
	} {
		in := base()
		in.Pod.Spec.NodeName = ""
		in.Pod.Labels = app.MatchLabels
		in.Node.Labels = map[string]string{"disk": "slow", "zone": "a"}
		in.Node.Spec.Taints = []corev1.Taint{{Key: "team", Value: "batch", Effect: corev1.TaintEffectNoSchedule}}
		in.ClusterContext = &ClusterContext{Nodes: []*corev1.Node{in.Node}, Pods: []*corev1.Pod{other}}
		if c.set != nil {
			c.set(in.Pod)
		}
		got := refusalFindings(in, []journal.NodeRefusal{{Node: "n1", Plugin: c.plugin, Messages: []string{c.message},
			Shortages: c.short}})
		if f := got[0]; f.Field != c.field || f.Value != c.value || f.Want != c.want || f.Object.Name != c.object {
			t.Errorf("%s: got %s %s=%q want %q, want %s %s=%q want %q", c.name, f.Object, f.Field, f.Value, f.Want,
				c.object,
				c.field, c.value, c.want)
		}
	}
}

// A node that takes no more volumes is blamed by the number of its CSINode, with the Pods that use
// them; where that is not known, by the claim.
func TestRefusalByAttachments(t *testing.T) {
	most := int32(1)
	claim := func(name, volume string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume}}
	}
	volume := func(name, driver string) *corev1.PersistentVolume {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver}
		return v
	}
	uses := func(name string) []corev1.Volume {
		return []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.
			PersistentVolumeClaimVolumeSource{ClaimName: name}}}}
	}
	first := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "first"}}
	first.Spec.NodeName, first.Spec.Volumes = "n1", uses("one")
	objects := &finding.Cluster{}
	objects.Add("PersistentVolumeClaim", claim("one", "v1"), claim("two", "v2"), claim("three", "v3"))
	objects.Add("PersistentVolume", volume("v1", "disk"), volume("v2", "disk"), volume("v3", "plain"))
	objects.Add("Pod", first)
	objects.Add("CSINode", &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: storagev1.CSINodeSpec{
		Drivers: []storagev1.CSINodeDriver{{Name: "plain"}, {Name: "disk", Allocatable: &storagev1.VolumeNodeResources{
			Count: &most}}}}})
	for _, c := range []struct{ claim, object, field, value string }{
		{"two", "csinode/n1", "spec.drivers[1].allocatable.count", "1"},
		{"three", "pod/web -n shop", "spec.volumes[0].persistentVolumeClaim.claimName", "three"},
		{"gone", "pod/web -n shop", "spec.volumes[0].persistentVolumeClaim.claimName", "gone"},
	} {
		in := base()
		in.Objects = objects
		in.Pod.Spec.Volumes = uses(c.claim)
		got := refusalFindings(in, []journal.NodeRefusal{{Node: "n1", Plugin: "NodeVolumeLimits"}})[0]
		if got.Object.String() != c.object || got.Field != c.field || got.Value != c.value {
			t.Errorf("%s: got %s %s=%s, want %s %s=%s", c.claim, got.Object, got.Field, got.Value, c.object, c.field,
				c.value)
		}
		if c.claim == "two" && (got.Numbers["used"] != "1" || !slices.Contains(got.Related, finding.Object{Kind: "Pod",
			Namespace: "shop", Name: "first"})) {
			t.Errorf("got %v %v, want the Pod that has it", got.Numbers, got.Related)
		}
	}
}
