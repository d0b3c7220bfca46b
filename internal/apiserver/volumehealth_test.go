package apiserver

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/features"
)

// healthObjects are a Pod, a claim and a CSINode.
type healthObjects struct {
	client kubernetes.Interface
	pod    *corev1.Pod
	claim  *corev1.PersistentVolumeClaim
	node   *storagev1.CSINode
}

func newHealthObjects(t *testing.T, c kubernetes.Interface, ns string) *healthObjects {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse("1Gi")}}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "i"}},
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}}}
	return &healthObjects{c, mustCreate[*corev1.Pod](t)(c.CoreV1().Pods(ns).Create(t.Context(), pod,
		metav1.CreateOptions{})),
		mustCreate[*corev1.PersistentVolumeClaim](t)(c.CoreV1().PersistentVolumeClaims(ns).Create(t.Context(), claim,
			metav1.CreateOptions{})),
		mustCreate[*storagev1.CSINode](t)(c.StorageV1().CSINodes().Create(t.Context(), &storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{}}},
			metav1.CreateOptions{}))}
}

// write writes the statuses and returns what is stored, and the errors that there are.
func (o *healthObjects) write(t *testing.T, pod []corev1.PodVolumeHealth, claim *corev1.VolumeHealthStatus,
	node []storagev1.StorageHealth) (stored [3]int, errs []string) {
	t.Helper()
	ctx, ns := t.Context(), o.pod.Namespace
	note := func(err error) {
		if err != nil {
			errs = append(errs, err.Error())
		}
	}
	p, c, n := o.pod.DeepCopy(), o.claim.DeepCopy(), o.node.DeepCopy()
	p.ResourceVersion, c.ResourceVersion, n.ResourceVersion = "", "", o.node.ResourceVersion
	p.Status.VolumeHealth, c.Status.HealthStatus, n.Status.StorageHealth = pod, claim, node
	n.Spec.Drivers = []storagev1.CSINodeDriver{{Name: "sneaked.in", NodeID: "x"}}
	_, err := o.client.CoreV1().Pods(ns).UpdateStatus(ctx, p, metav1.UpdateOptions{})
	note(err)
	_, err = o.client.CoreV1().PersistentVolumeClaims(ns).UpdateStatus(ctx, c, metav1.UpdateOptions{})
	note(err)
	_, err = o.client.StorageV1().CSINodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
	note(err)
	p, err = o.client.CoreV1().Pods(ns).Get(ctx, p.Name, metav1.GetOptions{})
	note(err)
	c, err = o.client.CoreV1().PersistentVolumeClaims(ns).Get(ctx, c.Name, metav1.GetOptions{})
	note(err)
	o.node, err = o.client.StorageV1().CSINodes().Get(ctx, n.Name, metav1.GetOptions{})
	note(err)
	if len(o.node.Spec.Drivers) > 0 {
		t.Errorf("the status endpoint changes a CSINode's spec: got %d, want 0", len(o.node.Spec.Drivers))
	}
	stored = [3]int{len(p.Status.VolumeHealth), 0, len(o.node.Status.StorageHealth)}
	if c.Status.HealthStatus != nil {
		stored[1] = len(c.Status.HealthStatus.HealthConditions)
	}
	return stored, errs
}

var (
	goodCondition = corev1.VolumeHealthCondition{Status: corev1.VolumeHealthDegraded, Reason: "Worn", Message: "m"}
	goodPod       = []corev1.PodVolumeHealth{{Name: "v",
		HealthConditions: []corev1.VolumeHealthCondition{goodCondition}}}
	goodClaim = &corev1.VolumeHealthStatus{HealthConditions: []corev1.VolumeHealthCondition{goodCondition}}
	goodNode  = []storagev1.StorageHealth{{Name: "disk.example.com",
		HealthConditions: []storagev1.StorageHealthCondition{{Status: storagev1.StorageDegraded, Reason: "Slow"}}}}
)

// Without the gate CSIVolumeHealth nothing about the health of volumes is stored.
func TestHealthOfVolumesIsDroppedWithoutTheGate(t *testing.T) {
	_, c := shared(t)
	o := newHealthObjects(t, c, newNamespace(t, c))
	if stored, errs := o.write(t, goodPod, goodClaim, goodNode); stored != [3]int{} || len(errs) > 0 {
		t.Errorf("stored %v, errors %q; want nothing", stored, errs)
	}
}

// With the gate it is stored where drivers' reports belong, and checked as kube-apiserver v1.37.2
// checks it.
func TestHealthOfVolumesIsStoredWithTheGate(t *testing.T) {
	config := testConfig(t.TempDir())
	config.Features = features.Features{CSIVolumeHealth: true}
	s, stop, err := launch(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stop() })
	c := kubernetes.NewForConfigOrDie(s.InProcess(admin()))
	o := newHealthObjects(t, c, newNamespace(t, c))
	if stored, errs := o.write(t, goodPod, goodClaim, goodNode); stored != [3]int{1, 1, 1} || len(errs) > 0 {
		t.Errorf("stored %v, errors %q; want all three", stored, errs)
	}
	long := strings.Repeat("A", 1100)
	condition := func(status, reason, message string) []corev1.VolumeHealthCondition {
		return []corev1.VolumeHealthCondition{{Status: corev1.VolumeHealthStatusType(status), Reason: reason,
			Message: message}}
	}
	for want, health := range map[string][]corev1.PodVolumeHealth{
		`status.volumeHealth[0].name: Not found: "w"`:  {{Name: "w"}},
		`status.volumeHealth[0].name: Required value`:  {{}},
		`status.volumeHealth[1]: Duplicate value: "v"`: {{Name: "v"}, {Name: "v"}},
		`healthConditions[0].status: Unsupported value: "Odd": supported values: "DataLoss", "Degraded", ` +
			`"Inaccessible"`: {{Name: "v", HealthConditions: condition("Odd", "A", "")}},
		`healthConditions[0].status: Required value`: {{Name: "v",
			HealthConditions: condition("", "A", "")}},
		`healthConditions[0].reason: Required value`: {{Name: "v",
			HealthConditions: condition("DataLoss", "", "")}},
		`healthConditions[0].reason: Invalid value: "-"`: {{Name: "v",
			HealthConditions: condition("DataLoss", "-", "")}},
		`healthConditions[0].reason: Too long`: {{Name: "v",
			HealthConditions: condition("DataLoss", long, "")}},
		`healthConditions[0].message: Too long`: {{Name: "v",
			HealthConditions: condition("DataLoss", "A", long)}},
		`healthConditions[1]: Duplicate value`: {{Name: "v",
			HealthConditions: slices.Repeat([]corev1.VolumeHealthCondition{goodCondition}, 2)}},
		`healthConditions: Too many: 17: must have at most 16 items`: {{Name: "v",
			HealthConditions: slices.Repeat([]corev1.VolumeHealthCondition{goodCondition}, 17)}},
	} {
		if _, errs := o.write(t, health, goodClaim, goodNode); len(errs) != 1 || !strings.Contains(errs[0], want) {
			t.Errorf("a Pod: got errors %q, want %q", errs, want)
		}
	}
	bad := &corev1.VolumeHealthStatus{HealthConditions: condition("Odd", "A", "")}
	if _, errs := o.write(t, goodPod, bad, goodNode); len(errs) != 1 ||
		!strings.Contains(errs[0], "status.healthStatus.healthConditions[0].status: Unsupported value") {
		t.Errorf("a claim: got errors %q", errs)
	}
	of := func(name string, c storagev1.StorageHealthCondition) storagev1.StorageHealth {
		return storagev1.StorageHealth{Name: name, HealthConditions: []storagev1.StorageHealthCondition{c}}
	}
	good := goodNode[0].HealthConditions[0]
	wrongMode, wrongAccess := good, good
	wrongMode.VolumeMode, wrongAccess.AccessMode = new(corev1.PersistentVolumeMode("M")),
		new(corev1.PersistentVolumeAccessMode("A"))
	for want, health := range map[string][]storagev1.StorageHealth{
		`status.storageHealth[1]: Duplicate value: "d.x"`:  {of("d.x", good), of("d.x", good)},
		`status.storageHealth[0].name: Required value`:     {of("", good)},
		`status.storageHealth[0].name: Invalid value: "_"`: {of("_", good)},
		`healthConditions[0].status: Unsupported value: "Odd": supported values: "StorageDegraded", ` +
			`"StorageUnreachable"`: {of("d.x", storagev1.StorageHealthCondition{Status: "Odd", Reason: "A"})},
		`healthConditions[0].reason: Required value`: {of("d.x",
			storagev1.StorageHealthCondition{Status: storagev1.StorageDegraded})},
		`healthConditions[0].message: Too long`: {of("d.x", storagev1.StorageHealthCondition{
			Status: storagev1.StorageDegraded, Reason: "A", Message: long})},
		`healthConditions[0].volumeMode: Unsupported value: "M"`: {of("d.x", wrongMode)},
		`healthConditions[0].accessMode: Unsupported value: "A": supported values: "ReadOnlyMany", ` +
			`"ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"`: {of("d.x", wrongAccess)},
		`healthConditions: Too many: 17: must have at most 16 items`: {{Name: "d.x",
			HealthConditions: slices.Repeat([]storagev1.StorageHealthCondition{good}, 17)}},
	} {
		if _, errs := o.write(t, goodPod, goodClaim, health); len(errs) != 1 || !strings.Contains(errs[0], want) {
			t.Errorf("a CSINode: got errors %q, want %q", errs, want)
		}
	}
}
