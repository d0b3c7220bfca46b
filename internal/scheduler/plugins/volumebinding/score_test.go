package volumebinding

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	config "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

var (
	least = []config.UtilizationShapePoint{{Utilization: 0, Score: 10}, {Utilization: 100, Score: 0}}
	most  = []config.UtilizationShapePoint{{Utilization: 0, Score: 0}, {Utilization: 50, Score: 2},
		{Utilization: 100, Score: 10}}
)

func storageOf(s string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceStorage: resource.MustParse(s)}
}

func newClaim(name, class, size string, annotations ...string) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
		Annotations: map[string]string{}},
		Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &class,
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources:   v1.VolumeResourceRequirements{Requests: storageOf(size)}}}
	for i := 0; i < len(annotations); i += 2 {
		c.Annotations[annotations[i]] = annotations[i+1]
	}
	return c
}

// newVolume is a volume that the node named, or every node, reaches.
func newVolume(name, class, size, node string) *v1.PersistentVolume {
	v := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
		Spec: v1.PersistentVolumeSpec{StorageClassName: class,
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, Capacity: storageOf(size)}}
	if node != "" {
		v.Spec.NodeAffinity = &v1.VolumeNodeAffinity{
			Required: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{
					{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "node", Operator: v1.NodeSelectorOpIn,
						Values: []string{node}}}}}}}
	}
	return v
}

func newClass(name, provisioner string) *storagev1.StorageClass {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner,
		VolumeBindingMode: &mode}
}

func newCapacity(class, node, size, most string) *storagev1.CSIStorageCapacity {
	c := &storagev1.CSIStorageCapacity{StorageClassName: class,
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"node": node}}}
	if size != "" {
		c.Capacity = new(resource.MustParse(size))
	}
	if most != "" {
		c.MaximumVolumeSize = new(resource.MustParse(most))
	}
	return c
}

func TestNodesAreScoredByHowFullTheirStorageWouldBe(t *testing.T) {
	counted := true
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "csi"},
		Spec: storagev1.CSIDriverSpec{StorageCapacity: &counted}}
	made := func(more ...runtime.Object) []runtime.Object {
		return append(more, driver, newClass("fast", "csi"), newClass("slow", "csi"), newClass("free", "other"),
			newClass("disks", "kubernetes.io/no-provisioner"))
	}
	bound := newClaim("c", "disks", "1Gi", "pv.kubernetes.io/bind-completed", "yes")
	bound.Spec.VolumeName = "v"
	for name, c := range map[string]struct {
		shape []config.UtilizationShapePoint
		facts []runtime.Object
		claim []string
		a, b  int64 // -1: skipped
	}{
		"no shape": {nil, made(newClaim("c", "disks", "1Gi"), newVolume("v", "disks", "4Gi", "")),
			[]string{"c"}, -1, -1},
		"no claims":         {least, made(), nil, -1, -1},
		"bound, to a node":  {least, made(bound, newVolume("v", "disks", "4Gi", "a")), []string{"c"}, -1, -1},
		"bound, everywhere": {least, made(bound, newVolume("v", "disks", "4Gi", "")), []string{"c"}, -1, -1},
		"a volume": {least, made(newClaim("c", "disks", "1Gi"), newVolume("v", "disks", "4Gi", "a"),
			newVolume("w", "disks", "10Gi", "b")), []string{"c"}, 75, 90},
		"a volume, the other way": {most, made(newClaim("c", "disks", "1Gi"), newVolume("v", "disks", "4Gi", "a"),
			newVolume("w", "disks", "10Gi", "b")), []string{"c"}, 10, 4},
		"two volumes of a class": {least, made(newClaim("c", "disks", "1Gi"), newClaim("d", "disks", "4Gi"),
			newVolume("v", "disks", "1Gi", ""), newVolume("w", "disks", "9Gi", "")), []string{"c", "d"}, 50, 50},
		// 50 and 67: rounded
		"volumes of two classes": {least, made(newClaim("c", "disks", "1Gi"), newClaim("d", "fast", "1Gi"),
			newVolume("v", "disks", "2Gi", ""), newVolume("w", "fast", "3Gi", "")), []string{"c", "d"}, 59, 59},
		"room": {least, made(newClaim("c", "fast", "1Gi"), newCapacity("fast", "a", "2Gi", ""),
			newCapacity("fast", "b", "100Gi", "")), []string{"c"}, 50, 99},
		"room, several places": {least, made(newClaim("c", "fast", "1Gi"), newCapacity("fast", "a", "2Gi", ""),
			newCapacity("fast", "a", "100Gi", ""), newCapacity("fast", "a", "4Gi", ""),
			newCapacity("fast", "b", "2Gi", "")), []string{"c"}, 99, 50},
		"room for both is the same": {least, made(newClaim("c", "fast", "1Gi"), newClaim("d", "fast", "2Gi"),
			newCapacity("fast", "a", "4Gi", ""), newCapacity("fast", "b", "2Gi", "")), []string{"c", "d"}, 25, 0},
		"room of two classes": {least, made(newClaim("c", "fast", "1Gi"), newClaim("d", "slow", "1Gi"),
			newCapacity("fast", "a", "4Gi", ""), newCapacity("slow", "a", "10Gi", ""),
			newCapacity("fast", "b", "1Gi", ""), newCapacity("slow", "b", "1Gi", "")), []string{"c", "d"}, 83, 0},
		"room nobody counts": {least, made(newClaim("c", "free", "1Gi")), []string{"c"}, 0, 0},
		"room known for one of two": {least, made(newClaim("c", "free", "1Gi"), newClaim("d", "fast", "1Gi"),
			newCapacity("fast", "a", "4Gi", ""), newCapacity("fast", "b", "2Gi", "")), []string{"c", "d"}, 75, 50},
		"only the largest is known": {least, made(newClaim("c", "fast", "1Gi"), newCapacity("fast", "a", "", "4Gi"),
			newCapacity("fast", "b", "2Gi", "4Gi")), []string{"c"}, 0, 50},
		"no more than in one piece": {least, made(newClaim("c", "fast", "2Gi"), newCapacity("fast", "a", "1Gi", "4Gi"),
			newCapacity("fast", "b", "4Gi", "2Gi")), []string{"c"}, 0, 50},
		"a volume counts, not room": {least, made(newClaim("c", "disks", "1Gi"), newClaim("d", "fast", "1Gi"),
			newVolume("v", "disks", "4Gi", ""), newCapacity("fast", "a", "1Gi", ""),
			newCapacity("fast", "b", "2Gi", "")), []string{"c", "d"}, 75, 75},
		"being provisioned for this": {least,
			made(newClaim("c", "fast", "1Gi", "volume.kubernetes.io/selected-node", "a"),
				newCapacity("fast", "a", "4Gi", "")), []string{"c"}, 75, 0},
	} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
		for _, n := range c.claim {
			p.Spec.Volumes = append(p.Spec.Volumes,
				v1.Volume{Name: n,
					VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
						ClaimName: n}}})
		}
		var nodes []*v1.Node
		for _, n := range []string{"a", "b"} {
			nodes = append(nodes,
				&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n, Labels: map[string]string{"node": n}}})
		}
		w, state, pl := snapshot.Of(nodes, nil), schedule.NewCycleState(),
			New(&config.VolumeBindingArgs{Shape: c.shape}, volumelisters.Of(c.facts...), nil)
		if _, s := pl.PreFilter(t.Context(), state, p, w.All()); !s.IsSkip() {
			if !s.IsSuccess() {
				t.Errorf("%s: got %v, want s.IsSuccess() true", name, s)
				continue
			}
			for _, n := range w.All() {
				pl.Filter(t.Context(), state, p, n)
			}
		}
		got := map[string]int64{"a": -1, "b": -1}
		if s := pl.PreScore(t.Context(), state, p, w.All()); s.IsSuccess() {
			for node := range got {
				got[node], _ = pl.Score(t.Context(), state, p, w.Node(node))
			}
		} else if s.Code() != framework.Skip {
			t.Errorf("%s: got %v, want s.Code() Skip", name, s)
		}
		if got["a"] != c.a || got["b"] != c.b {
			t.Errorf("%s: %v, want a %d, b %d", name, got, c.a, c.b)
		}
	}
}
