package apiserver

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/features"
)

// sourceStored makes a claim with a source in another namespace, and returns the namespace that is
// stored of it; none when the source was dropped.
func sourceStored(t *testing.T, c kubernetes.Interface, ns string) string {
	t.Helper()
	other := "other"
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "copy"},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse("1Gi")}},
			DataSourceRef: &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "data",
				Namespace: &other}}}
	claim = mustCreate[*corev1.PersistentVolumeClaim](t)(c.CoreV1().PersistentVolumeClaims(ns).Create(t.Context(),
		claim, metav1.CreateOptions{}))
	claim.Labels = map[string]string{"a": "b"}
	claim, err := c.CoreV1().PersistentVolumeClaims(ns).Update(t.Context(), claim, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if claim.Spec.DataSource != nil {
		t.Errorf("got the data source %v, want none: it is in another namespace", claim.Spec.DataSource)
	}
	if claim.Spec.DataSourceRef == nil {
		return ""
	}
	return *claim.Spec.DataSourceRef.Namespace
}

// A source in another namespace is dropped, and kept with the gate CrossNamespaceVolumeDataSource.
func TestSourcesInOtherNamespacesNeedTheGate(t *testing.T) {
	_, c := shared(t)
	if got := sourceStored(t, c, newNamespace(t, c)); got != "" {
		t.Errorf("without the gate: got a source in namespace %q, want none", got)
	}
	config := testConfig(t.TempDir())
	config.Features = features.Features{CrossNamespaceVolumeDataSource: true}
	s, stop, err := launch(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stop() })
	c = kubernetes.NewForConfigOrDie(s.InProcess(admin()))
	if got := sourceStored(t, c, newNamespace(t, c)); got != "other" {
		t.Errorf("with the gate: got a source in namespace %q, want other", got)
	}
}
