package forecast_test

import (
	"context"
	"fmt"
	"runtime"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kindsOfScenario is how many kinds there are, one after the other: a loss is one of them, a
// StatefulSet with claims another.
const kindsOfScenario = 12

// briefly has Pods leave a silent node after a second.
func briefly() []corev1.Toleration {
	var out []corev1.Toleration
	for _, key := range []string{corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady} {
		out = append(out, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(1))})
	}
	return out
}

// diskClass makes a class of volumes that somebody made and that wait for their Pods.
func (l *lab) diskClass() {
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	_, err := l.client.StorageV1().StorageClasses().Create(l.t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Provisioner: "kubernetes.io/no-provisioner",
		VolumeBindingMode: &wait}, metav1.CreateOptions{})
	l.must(err)
}

// makeClaims makes two volumes on each node and a StatefulSet of two Pods that claim some.
func (l *lab) makeClaims(ctx context.Context) {
	for i := range 8 {
		node := fmt.Sprint("n", 1+i/2)
		_, err := l.client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(l.ns, "-", i)},
			Spec: corev1.PersistentVolumeSpec{StorageClassName: "disk",
				AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				Capacity: corev1.ResourceList{
					corev1.ResourceStorage: *resource.NewQuantity(int64(1+i)<<30, resource.BinarySI)},
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
					Path: l.t.TempDir()}},
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}}},
			metav1.CreateOptions{})
		l.must(err)
	}
	two, class := int32(2), "disk"
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: appsv1.StatefulSetSpec{Replicas: &two,
		Selector: selector("db"), Template: l.template("db", 100+l.rand.IntN(300), 100),
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class,
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceStorage: resource.MustParse("1Gi")}}}}}}}
	s.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	_, err := l.client.AppsV1().StatefulSets(l.ns).Create(ctx, s, metav1.CreateOptions{})
	l.must(err)
	l.sets = append(l.sets, "db")
}

func (l *lab) nodeOf(pod string) string {
	p, err := l.client.CoreV1().Pods(l.ns).Get(l.t.Context(), pod, metav1.GetOptions{})
	l.must(err)
	return p.Spec.NodeName
}

// mostHeap is how much may be in use after a scenario, of which nothing should be left.
const mostHeap = 1 << 30

// memory fails the test when scenarios leave more than mostHeap.
func (l *lab) memory(i int) {
	if i%10 != 9 {
		return
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	l.t.Logf("after scenario %d: %d MiB in use, %d MiB from the system, %d goroutines", i, m.HeapAlloc>>20, m.Sys>>20,
		runtime.NumGoroutine())
	if m.HeapAlloc > mostHeap {
		l.t.Fatalf("after scenario %d %d MiB are in use", i, m.HeapAlloc>>20)
	}
}
