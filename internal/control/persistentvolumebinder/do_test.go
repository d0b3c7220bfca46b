package persistentvolumebinder

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/component-helpers/storage/volume"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/journal"
)

// A class that becomes the default one is given to the claims that wait for one, and to no others.
func TestANewDefaultClassIsGivenToClaimsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		waits := claim(func(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil })
		named := claim(func(c *v1.PersistentVolumeClaim) { c.Name = "named" })
		client := fake.NewClientset(waits, named)
		shared := informers.NewSharedInformerFactory(client, 0)
		r := New(controllerruntime.ControllerContext{Client: client, Informers: shared,
			Recorder: record.NewFakeRecorder(99), Journal: journal.Discard{}})
		shared.Start(ctx.Done())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		classOf := func(name string) string {
			time.Sleep(time.Minute)
			synctest.Wait()
			c, err := client.CoreV1().PersistentVolumeClaims("ns").Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if c.Spec.StorageClassName == nil {
				return ""
			}
			return *c.Spec.StorageClassName
		}
		if got := classOf("data"); got != "" {
			t.Errorf("got class %q, want none as long as there is none", got)
		}
		c := class("example.com/p", storagev1.VolumeBindingImmediate)
		c.Name, c.Annotations = "fast", map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
		if _, err := client.StorageV1().StorageClasses().Create(ctx, c, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := classOf("data"); got != "fast" {
			t.Errorf("got class %q, want the new default class", got)
		}
		if got := classOf("named"); got != "c" {
			t.Errorf("got class %q of a claim that names its own, want c", got)
		}
		cancel()
		<-done
	})
}

// Provisioning is measured from the request to the bound claim, deletion from the release until the
// volume is gone; what cannot be deleted is an error.
//
// row: OPS-11
func TestOperationsOfProvisionersAreMeasured(t *testing.T) {
	operationSeconds.Reset()
	operationErrors.Reset()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		client := fake.NewClientset(class("example.com/p", storagev1.VolumeBindingImmediate))
		shared := informers.NewSharedInformerFactory(client, 0)
		r := New(controllerruntime.ControllerContext{Client: client, Informers: shared,
			Recorder: record.NewFakeRecorder(99), Journal: journal.Discard{}})
		shared.Start(ctx.Done())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		volumes := client.CoreV1().PersistentVolumes()
		pass := func(d time.Duration, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(d)
			synctest.Wait()
		}
		pass(time.Minute, nil) // the caches are in sync
		_, err := client.CoreV1().PersistentVolumeClaims("ns").Create(ctx, claim(), metav1.CreateOptions{})
		pass(3*time.Second, err) // the provisioner takes so long
		provisioned := vol("v", "1Gi", withClaimRef("data", "u"), func(v *v1.PersistentVolume) {
			v.Annotations = map[string]string{volume.AnnDynamicallyProvisioned: "example.com/p"}
			v.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimDelete
		})
		_, err = volumes.Create(ctx, provisioned, metav1.CreateOptions{})
		pass(time.Minute, err)
		expectOperation(t, "example.com/p", "provision", 1, 3, 0)
		pass(time.Minute, client.CoreV1().PersistentVolumeClaims("ns").Delete(ctx, "data", metav1.DeleteOptions{}))
		expectOperation(t, "example.com/p", "delete", 0, 0, 0)
		pass(time.Minute, volumes.Delete(ctx, "v", metav1.DeleteOptions{}))
		expectOperation(t, "example.com/p", "delete", 1, 60, 0)
		static := vol("static", "1Gi", withClaimRef("gone", "g"), func(v *v1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimDelete
		})
		_, err = volumes.Create(ctx, static, metav1.CreateOptions{})
		pass(time.Minute, err)
		expectOperation(t, "N/A", "delete", 0, 0, 1)
		cancel()
		<-done
	})
}

// expectOperation checks what was measured of an operation: how often, the seconds of all, errors.
func expectOperation(t *testing.T, plugin, name string, times uint64, seconds, failures float64) {
	t.Helper()
	h, err := testutil.GetHistogramVecFromGatherer(legacyregistry.DefaultGatherer, "volume_operation_total_seconds",
		map[string]string{"plugin_name": plugin, "operation_name": name})
	if err != nil {
		t.Fatal(err)
	}
	failed, err := testutil.GetCounterMetricValue(operationErrors.WithLabelValues(plugin, name))
	if err != nil {
		t.Fatal(err)
	}
	if n, sum := h.GetAggregatedSampleCount(), h.GetAggregatedSampleSum(); n != times || sum != seconds ||
		failed != failures {
		t.Errorf("%s of %s: got %d of %v s and %v errors, want %d of %v s and %v", name, plugin, n, sum, failed, times,
			seconds, failures)
	}
}

// A claim that waits for a Pod says so when the scheduler has no node for the Pod, and only then.
func TestAClaimWaitsForItsPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		client := fake.NewClientset(class("example.com/p", storagev1.VolumeBindingWaitForFirstConsumer))
		shared := informers.NewSharedInformerFactory(client, 0)
		said := record.NewFakeRecorder(99)
		r := New(controllerruntime.ControllerContext{Client: client, Informers: shared, Recorder: said,
			Journal: journal.Discard{}})
		shared.Start(ctx.Done())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		expectEvents := func(when string, want ...string) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			var got []string
			for len(said.Events) > 0 {
				got = append(got, <-said.Events)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: got the events %q, want %q", when, got, want)
			}
		}
		expectEvents("at first")
		if _, err := client.CoreV1().PersistentVolumeClaims("ns").Create(ctx, claim(), metav1.CreateOptions{}); err !=
			nil {
			t.Fatal(err)
		}
		expectEvents("a claim",
			"Normal WaitForFirstConsumer waiting for first consumer to be created before binding")
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: v1.PodSpec{
			Volumes: []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}}}
		pod, err := client.CoreV1().Pods("ns").Create(ctx, pod, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		expectEvents("a Pod that is not looked at yet")
		pod = pod.DeepCopy()
		pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse}}
		if pod, err = client.CoreV1().Pods("ns").UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		expectEvents("there is no node for it", "Normal WaitForPodScheduled waiting for pod p to be scheduled")
		pod = pod.DeepCopy()
		pod.Status.Conditions[0].Message = "0/2 nodes are available"
		if _, err = client.CoreV1().Pods("ns").UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		expectEvents("nothing new")
		cancel()
		<-done
	})
}
