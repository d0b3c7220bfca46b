package scenario

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/simulate/forecast"
)

const driver = "disk.example"

func storageClass(provisioner string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Provisioner: provisioner,
		VolumeBindingMode: &mode}
}

// csiNode has the driver with volumes for one zone, at most so many on a node.
func csiNode(name string, most int32) *storagev1.CSINode {
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{
		Drivers: []storagev1.CSINodeDriver{{Name: driver, NodeID: name,
			TopologyKeys: []string{corev1.LabelTopologyZone},
			Allocatable:  &storagev1.VolumeNodeResources{Count: &most}}}}}
}

func withClaims(replicas int32) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"},
		Spec: appsv1.StatefulSetSpec{Replicas: &replicas, Selector: selector("db"), Template: template("db", "100m"),
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: new("disk"),
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
						corev1.ResourceStorage: resource.MustParse("1Gi")}}}}}}}
	s.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	return s
}

// row: TOO-06
// The claims of a StatefulSet get volumes where its Pods run; a drained Pod goes to a node of its
// volume's zone, and where there is none it waits.
func TestClaimsInAFork(t *testing.T) {
	for _, mode := range []storagev1.VolumeBindingMode{storagev1.VolumeBindingWaitForFirstConsumer,
		storagev1.VolumeBindingImmediate} {
		in := input(append(nodes("4", "4", "4"), csiNode("n0", 9), csiNode("n1", 9), csiNode("n2", 9),
			storageClass(driver, mode), withClaims(3))...)
		f := simulate(t, in, func() Change { return &Drain{Nodes: []string{"n0"}} })
		moved := count(f, func(p forecast.Pod) bool { return p.Created != nil && p.Ready != nil })
		if !f.Outcome.Done || moved == 0 {
			t.Errorf("%s: outcome %+v, pods %+v, want those of n0 to move", mode, f.Outcome, f.Pods)
		}
		for _, p := range f.Pods {
			if mode == storagev1.VolumeBindingWaitForFirstConsumer && p.Created != nil && p.Node != "n2" {
				t.Errorf("%s: %s goes to %s, want n2, which alone shares n0's zone", mode, p.Name, p.Node)
			}
		}
	}
	in := input(append(nodes("4", "4"), csiNode("n0", 9), csiNode("n1", 9),
		storageClass(driver, storagev1.VolumeBindingWaitForFirstConsumer), withClaims(2))...)
	var claims []string
	f, err := Simulate(t.Context(), in, func() Change { return &Drain{Nodes: []string{"n0"}} },
		func(ctx context.Context, r *Run) error {
			unready, err := r.Unready(ctx)
			for i := range unready {
				claims = append(claims, r.Cluster.ClaimsOf(ctx, &unready[i])...)
			}
			return err
		})
	if err != nil {
		t.Fatal(err)
	}
	if f.Outcome.Done || len(claims) != 1 || !strings.Contains(claims[0], "claim data-db-") ||
		!strings.Contains(claims[0], "[z0]") {
		t.Errorf("outcome %+v, claims %q, want one Pod that its volume keeps in zone z0", f.Outcome, claims)
	}
}

// A node takes no more volumes than its driver says, and volumes that are there are given to claims
// without a provisioner.
func TestVolumesAreLimited(t *testing.T) {
	in := input(append(nodes("4"), csiNode("n0", 2), storageClass(driver, storagev1.VolumeBindingImmediate),
		withClaims(1))...)
	f := simulate(t, in, func() Change { return &Scale{Object: Object{"StatefulSet", "default", "db"}, Replicas: 4} })
	ready := count(f, func(p forecast.Pod) bool { return p.Ready != nil })
	if f.Outcome.Done || ready != 1 {
		t.Errorf("outcome %+v, %d came, want 1: the node takes two volumes", f.Outcome, ready)
	}
	objects := append(nodes("4", "4"), storageClass("kubernetes.io/no-provisioner",
		storagev1.VolumeBindingWaitForFirstConsumer), withClaims(1))
	for i := range 2 {
		objects = append(objects, localVolume(fmt.Sprint("v", i), fmt.Sprint("n", i)))
	}
	f = simulate(t, input(objects...),
		func() Change { return &Scale{Object: Object{"StatefulSet", "default", "db"}, Replicas: 2} })
	if !f.Outcome.Done {
		t.Errorf("outcome %+v, want two Pods with the two volumes that are there", f.Outcome)
	}
}

func localVolume(name, node string) runtime.Object {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		StorageClassName: "disk", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{
			Path: "/mnt/" + name}},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname,
					Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}}}
}
