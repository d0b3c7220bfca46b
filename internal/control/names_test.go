package control

import (
	_ "embed"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
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
	"github.com/gantry-project/gantry/internal/control/resourceclaim"
	"github.com/gantry-project/gantry/test/metriclist"
)

//go:embed testdata/metrics-v1.37.2.txt
var upstreamMetrics string

// Metrics have the names, types and labels of kube-controller-manager v1.37.2, except those that
// the metrics page lists as not served.
func TestMetricsAreNamedAsUpstreams(t *testing.T) {
	got := map[string]string{}
	registered, counted := families(t)
	for _, f := range slices.Concat(registered, counted) {
		got[f.Name] = strings.Join(f.Labels, " ")
	}
	for line := range strings.Lines(upstreamMetrics) {
		f := strings.Fields(line)
		switch {
		case f[0] == "#":
		case f[0] == "-":
			if _, served := got[f[2]]; served {
				t.Errorf("%s is served: take the - away", f[2])
			}
		default:
			if labels, served := got[f[1]]; !served || labels != strings.Join(f[2:], " ") {
				t.Errorf("%s is served: got %t, with labels %q; want true, with %q", f[1], served, labels,
					strings.Join(f[2:], " "))
			}
		}
	}
}

// The list of the page of metrics is what the controllers register.
func TestMetricsAreListed(t *testing.T) {
	registered, counted := families(t)
	metriclist.Check(t, "controllers", true, counted, registered)
}

// families are those that the controllers register, and those that have a type only when they are
// asked for.
func families(t *testing.T) (registered, counted []metriclist.Family) {
	t.Helper()
	metrics.RegisterMetrics() // as the EndpointSlice controller does when it starts
	horizontalpodautoscaler.RegisterMetrics()
	r, ok := legacyregistry.Registerer().(*prometheus.Registry)
	if !ok {
		t.Fatalf("got a registry of type %T, want *prometheus.Registry", legacyregistry.Registerer())
	}
	countVolumes(t)
	for _, f := range metriclist.Gathered(t, r) {
		if strings.HasPrefix(f.Name, "pv_collector_") || strings.HasPrefix(f.Name, "storage_count_") ||
			f.Name == "attachdetach_controller_total_volumes" ||
			f.Name == "dynamic_resource_allocation_resource_claims" {
			counted = append(counted, f)
		}
	}
	return metriclist.Registered(t, r), counted
}

// countVolumes has the controllers see volumes and claims, bound ones and others, of storage and of
// devices.
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
	if err := shared.Resource().V1().ResourceClaims().Informer().GetIndexer().Add(
		&resourceapi.ResourceClaim{}); err != nil {
		t.Fatal(err)
	}
	resourceclaim.New(controllerruntime.ControllerContext{Informers: shared})
	attachdetach.New(controllerruntime.ControllerContext{Informers: shared})
	persistentvolumebinder.New(controllerruntime.ControllerContext{Informers: shared})
}
