package testcluster_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/volume/csi/csitest"
	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/testcluster"
)

const disks = "disk.example.com"

// startDisks runs a driver whose volumes are attached, on node-1, and attaches what it is asked to,
// as an external attacher does.
func startDisks(ctx context.Context, t *testing.T, c *testcluster.Cluster) *csitest.Driver {
	t.Helper()
	return startDriver(ctx, t, c, &csitest.Driver{Name: disks})
}

// startDriver is startDisks with a driver that is not started.
func startDriver(ctx context.Context, t *testing.T, c *testcluster.Cluster, d *csitest.Driver) *csitest.Driver {
	t.Helper()
	d.Capabilities = []csipb.NodeServiceCapability_RPC_Type{csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}
	d.Start(t)
	d.Register(t, filepath.Join(c.KubeletDir("node-1"), "plugins_registry"))
	if _, err := c.Client.StorageV1().CSIDrivers().Create(ctx, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: d.Name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	attachments := c.Client.StorageV1().VolumeAttachments()
	w, err := attachments.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	go func() {
		for e := range w.ResultChan() {
			if va, ok := e.Object.(*storagev1.VolumeAttachment); ok && e.Type != "DELETED" && !va.Status.Attached {
				_, err := attachments.Patch(ctx, va.Name, types.MergePatchType, []byte(`{"status":{"attached":true}}`),
					metav1.PatchOptions{}, "status")
				if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
					t.Error(err)
				}
			}
		}
	}()
	return d
}

// diskPod makes a PersistentVolume, its claim and a Pod that uses it.
func diskPod(ctx context.Context, t *testing.T, c *testcluster.Cluster, name string) {
	t.Helper()
	volumePod(ctx, t, c, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: disks, VolumeHandle: "vol-" + name}}}})
}

// volumePod is diskPod with a volume of which name and source are given.
func volumePod(ctx context.Context, t *testing.T, c *testcluster.Cluster, pv *corev1.PersistentVolume) {
	t.Helper()
	name := pv.Name
	none, one := "", corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	pv.Spec.AccessModes, pv.Spec.Capacity = modes, one
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: name}
	if _, err := c.Client.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{AccessModes: modes, StorageClassName: &none, VolumeName: name,
			Resources: corev1.VolumeResourceRequirements{Requests: one}}}
	if _, err := c.Client.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{}); err !=
		nil {
		t.Fatal(err)
	}
	p := pod(name, "app")
	p.Spec.TerminationGracePeriodSeconds = new(int64)
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	create(t, c, p)
}

func running(p *corev1.Pod) bool { return p != nil && p.Status.Phase == corev1.PodRunning }

// detached waits until nothing is attached.
func detached(ctx context.Context, t *testing.T, c *testcluster.Cluster, d *csitest.Driver) {
	t.Helper()
	expect.Eventually(t, "nothing is attached", func() bool {
		left, err := c.Client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
		return err == nil && len(left.Items) == 0 && len(d.Left()) == 0
	})
}

// A hundred volumes are attached, staged and published at once, and all taken away at once: each
// once, and in order, which the driver sees to.
func TestAStormOfVolumes(t *testing.T) {
	const count = 100
	c := testcluster.Start(t, testcluster.WithPlugins())
	ctx := within(t, 5*time.Minute)
	d := startDisks(ctx, t, c)
	for i := range count {
		diskPod(ctx, t, c, fmt.Sprintf("p-%d", i))
	}
	for i := range count {
		c.WaitPod(ctx, "default", fmt.Sprintf("p-%d", i), running)
	}
	calls := map[string]int{}
	for _, call := range d.Calls() {
		calls[strings.Fields(call)[0]]++
	}
	if calls["NodeStageVolume"] != count || calls["NodePublishVolume"] < count {
		t.Errorf("calls of the driver: %v, want each volume staged once and published", calls)
	}
	if err := c.Client.CoreV1().Pods("default").DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range count {
		c.WaitPod(ctx, "default", fmt.Sprintf("p-%d", i), isDeleted)
	}
	detached(ctx, t, c, d)
	for _, call := range d.Calls() {
		calls[strings.Fields(call)[0]]++
	}
	if calls["NodeUnstageVolume"] != count {
		t.Errorf("calls of the driver: %v, want each volume unstaged once", calls)
	}
}

// A PersistentVolume that is deleted under a Pod, with force, keeps the Pod running, and its volume
// is taken off the node by what the node stored of it. Its VolumeAttachment stays: nobody, an
// attacher included, knows any longer what to detach.
func TestAVolumeIsDeletedUnderItsPod(t *testing.T) {
	c := testcluster.Start(t, testcluster.WithPlugins())
	ctx := within(t, 5*time.Minute)
	d := startDisks(ctx, t, c)
	diskPod(ctx, t, c, "p")
	before := c.WaitPod(ctx, "default", "p", running)
	pvs := c.Client.CoreV1().PersistentVolumes()
	if err := pvs.Delete(ctx, "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := pvs.Patch(ctx, "p", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	expect.Eventually(t, "the claim is Lost", func() bool {
		claim, err := c.Client.CoreV1().PersistentVolumeClaims("default").Get(ctx, "p", metav1.GetOptions{})
		return err == nil && claim.Status.Phase == corev1.ClaimLost
	})
	after := c.WaitPod(ctx, "default", "p", running)
	if after.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID {
		t.Errorf("the container was started again: got %v, want %v",
			after.Status.ContainerStatuses[0].ContainerID, before.Status.ContainerStatuses[0].ContainerID)
	}
	if err := c.Client.CoreV1().Pods("default").Delete(ctx, "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.WaitPod(ctx, "default", "p", isDeleted)
	expect.Eventually(t, "nothing is staged or published", func() bool { return len(d.Left()) == 0 })
}

// A driver that is gone keeps its own Pods only: others start, the node stays Ready, and what waits
// goes on when the driver is back.
//
// row: CSI-12, CSI-13
func TestADriverThatIsGoneKeepsItsPodsOnly(t *testing.T) {
	c := testcluster.Start(t, testcluster.WithPlugins())
	ctx := within(t, 5*time.Minute)
	d := startDisks(ctx, t, c)
	diskPod(ctx, t, c, "first")
	c.WaitPod(ctx, "default", "first", running)
	d.Stop()
	diskPod(ctx, t, c, "waits")
	create(t, c, pod("other", "app"))
	c.WaitPod(ctx, "default", "other", running)
	c.WaitPod(ctx, "default", "first", running)
	said := func() bool {
		events, err := c.Client.CoreV1().Events("default").List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.name=waits,reason=FailedMount"})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events.Items {
			if strings.Contains(e.Message, disks) || strings.Contains(e.Message, "connection error") {
				return true
			}
		}
		return false
	}
	expect.Eventually(t, "an event says what the Pod waits for", said)
	node, err := c.Client.CoreV1().Nodes().Get(ctx, "node-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, cond := range node.Status.Conditions {
		if cond.Type == corev1.NodeReady && cond.Status != corev1.ConditionTrue {
			t.Errorf("the node is not Ready: %s", cond.Message)
		}
	}
	d.Serve(t)
	c.WaitPod(ctx, "default", "waits", running)
}

// A claim that is deleted while a Pod uses it stays until the Pod is gone. Claims are handled one
// after the other: when an unused one that was deleted later is gone, the used one was looked at.
func TestAClaimInUseStays(t *testing.T) {
	c := testcluster.Start(t, testcluster.WithPlugins())
	ctx := within(t, 5*time.Minute)
	startDisks(ctx, t, c)
	for _, name := range []string{"used", "unused"} {
		diskPod(ctx, t, c, name)
		c.WaitPod(ctx, "default", name, running)
	}
	if err := c.Client.CoreV1().Pods("default").Delete(ctx, "unused", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.WaitPod(ctx, "default", "unused", isDeleted)
	claims := c.Client.CoreV1().PersistentVolumeClaims("default")
	for _, name := range []string{"used", "unused"} {
		if err := claims.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	isGone := func(name string) func() bool {
		return func() bool {
			_, err := claims.Get(ctx, name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}
	}
	expect.Eventually(t, "the unused claim goes", isGone("unused"))
	if claim, err := claims.Get(ctx, "used", metav1.GetOptions{}); err != nil || claim.DeletionTimestamp == nil {
		t.Fatalf("the claim that a Pod uses: %v, %v, want it there and being deleted", claim, err)
	}
	if err := c.Client.CoreV1().Pods("default").Delete(ctx, "used", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect.Eventually(t, "the claim goes with its Pod", isGone("used"))
}
