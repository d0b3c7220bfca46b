package control

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection" // as `gantry controllers` has them
	_ "k8s.io/component-base/metrics/prometheus/restclient"
	_ "k8s.io/component-base/metrics/prometheus/slis"
	_ "k8s.io/component-base/metrics/prometheus/version"
	_ "k8s.io/component-base/metrics/prometheus/workqueue"
	"k8s.io/endpointslice/metrics"

	"github.com/gantry-project/gantry/internal/control/attachdetach"
	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/control/horizontalpodautoscaler"
	"github.com/gantry-project/gantry/internal/control/persistentvolumebinder"
	"github.com/gantry-project/gantry/test/metriclist"
)

// The list of the page of metrics is what the controllers register.
func TestMetricsAreListed(t *testing.T) {
	metrics.RegisterMetrics() // as the EndpointSlice controller does when it starts
	horizontalpodautoscaler.RegisterMetrics()
	r, ok := legacyregistry.Registerer().(*prometheus.Registry)
	if !ok {
		t.Fatalf("got a registry of type %T, want *prometheus.Registry", legacyregistry.Registerer())
	}
	countVolumes(t)
	var counted []metriclist.Family // what has a type only when it is asked for
	for _, f := range metriclist.Gathered(t, r) {
		if strings.HasPrefix(f.Name, "pv_collector_") || strings.HasPrefix(f.Name, "storage_count_") ||
			f.Name == "attachdetach_controller_total_volumes" {
			counted = append(counted, f)
		}
	}
	metriclist.Check(t, "controllers", true, counted, metriclist.Registered(t, r))
}

// countVolumes has the binder see volumes and claims, bound ones and others.
func countVolumes(t *testing.T) {
	shared := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	core := shared.Core().V1()
	for _, phase := range []string{"Bound", "Pending"} {
		m := metav1.ObjectMeta{Namespace: "ns", Name: phase}
		if err := core.PersistentVolumes().Informer().GetIndexer().Add(&v1.PersistentVolume{ObjectMeta: m,
			Status: v1.PersistentVolumeStatus{Phase: v1.PersistentVolumePhase(phase)}}); err != nil {
			t.Fatal(err)
		}
		if err := core.PersistentVolumeClaims().Informer().GetIndexer().Add(&v1.PersistentVolumeClaim{ObjectMeta: m,
			Status: v1.PersistentVolumeClaimStatus{Phase: v1.PersistentVolumeClaimPhase(phase)}}); err != nil {
			t.Fatal(err)
		}
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "inline"}, Spec: v1.PodSpec{NodeName: "n",
		Volumes: []v1.Volume{{VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "d"}}}}}}
	if err := core.Pods().Informer().GetIndexer().Add(pod); err != nil {
		t.Fatal(err)
	}
	if err := shared.Storage().V1().VolumeAttachments().Informer().GetIndexer().Add(&storagev1.VolumeAttachment{
		Status: storagev1.VolumeAttachmentStatus{Attached: true}}); err != nil {
		t.Fatal(err)
	}
	attachdetach.New(controllerruntime.ControllerContext{Informers: shared})
	persistentvolumebinder.New(controllerruntime.ControllerContext{Informers: shared})
}
