package testcluster_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/volume/csi/csitest"
	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/testcluster"
)

// limited is a driver that attaches so many volumes to a node.
func limited(name string, most int64) *csitest.Driver {
	return &csitest.Driver{Name: name, Info: &csipb.NodeGetInfoResponse{NodeId: "n", MaxVolumesPerNode: most}}
}

// hasLimit waits until the CSINode says how many volumes a driver attaches.
func hasLimit(ctx context.Context, t *testing.T, c *testcluster.Cluster, driver string) {
	t.Helper()
	expect.Eventually(t, "the CSINode has the limit of "+driver, func() bool {
		n, err := c.Client.StorageV1().CSINodes().Get(ctx, "node-1", metav1.GetOptions{})
		if err != nil {
			return false
		}
		for _, d := range n.Spec.Drivers {
			if d.Name == driver {
				return d.Allocatable != nil && d.Allocatable.Count != nil
			}
		}
		return false
	})
}

// refusedForLimit waits until the scheduler refuses a Pod because of a driver's limit, in
// upstream's words, and its journal gives the numbers.
func refusedForLimit(t *testing.T, c *testcluster.Cluster, name, numbers string) {
	t.Helper()
	ctx := within(t, time.Minute)
	c.WaitPod(ctx, "default", name, func(p *corev1.Pod) bool {
		return p != nil && slices.ContainsFunc(p.Status.Conditions, func(is corev1.PodCondition) bool {
			return is.Type == corev1.PodScheduled && is.Reason == corev1.PodReasonUnschedulable &&
				strings.Contains(is.Message, "1 node(s) exceed max volume count")
		})
	})
	expect.EventuallyNoError(t, "the numbers", func() error {
		var said []string
		for _, e := range c.Journal("default", name) {
			if r, ok := e.Fact.(journal.Ruled); ok && len(r.Refusals) == 1 {
				said = append(said, r.Refusals[0].Detail)
			}
		}
		if !slices.Contains(said, numbers) {
			return fmt.Errorf("got the refusals %q, want %q", said, numbers)
		}
		return nil
	})
}

// A driver's limit is the scheduler's: a Pod that needs one volume more waits, which is said with
// the numbers, and runs when another has left.
//
// row: CSI-15
func TestTheLimitOfADriverIsKept(t *testing.T) {
	c := testcluster.Start(t, testcluster.WithPlugins())
	ctx := within(t, 5*time.Minute)
	d := startDriver(ctx, t, c, limited(disks, 1))
	hasLimit(ctx, t, c, disks)
	diskPod(ctx, t, c, "first")
	c.WaitPod(ctx, "default", "first", running)
	diskPod(ctx, t, c, "second")
	refusedForLimit(t, c, "second",
		"driver disk.example.com attaches at most 1 volumes here, 1 are there and the Pod needs 1 more")
	if err := c.Client.CoreV1().Pods("default").Delete(ctx, "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.WaitPod(ctx, "default", "second", running)
	if err := c.Client.CoreV1().Pods("default").Delete(ctx, "second", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.WaitPod(ctx, "default", "second", isDeleted)
	detached(ctx, t, c, d)
}

// Volumes of an in-tree plugin, behind a claim and in a Pod, run by the CSI driver that took it
// over: attached, counted against its limit, staged and taken away.
//
// row: CSI-01
func TestVolumesOfInTreePlugins(t *testing.T) {
	const ebs = "ebs.csi.aws.com"
	c := testcluster.Start(t, testcluster.WithPlugins())
	ctx := within(t, 5*time.Minute)
	d := startDriver(ctx, t, c, limited(ebs, 2))
	hasLimit(ctx, t, c, ebs)
	disk := func(id string) *corev1.AWSElasticBlockStoreVolumeSource {
		return &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: id, FSType: "ext4"}
	}
	volumePod(ctx, t, c, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "claimed"},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
			AWSElasticBlockStore: disk("vol-claimed")}}})
	for _, name := range []string{"inline", "third"} {
		p := pod(name, "app")
		p.Spec.TerminationGracePeriodSeconds = new(int64)
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			AWSElasticBlockStore: disk("vol-" + name)}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
		if name == "third" {
			c.WaitPod(ctx, "default", "claimed", running)
			c.WaitPod(ctx, "default", "inline", running)
		}
		create(t, c, p)
	}
	refusedForLimit(t, c, "third",
		"driver ebs.csi.aws.com attaches at most 2 volumes here, 2 are there and the Pod needs 1 more")
	attachments, err := c.Client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{}
	for _, a := range attachments.Items {
		if s := a.Spec.Source; s.InlineVolumeSpec != nil {
			sources[s.InlineVolumeSpec.CSI.VolumeHandle] = a.Spec.Attacher
		} else {
			sources[*s.PersistentVolumeName] = a.Spec.Attacher
		}
	}
	if len(sources) != 2 || sources["claimed"] != ebs || sources["vol-inline"] != ebs {
		t.Errorf("got the attachments %v, want of the PersistentVolume and of vol-inline", sources)
	}
	for _, name := range []string{"claimed", "inline", "third"} {
		if err := c.Client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.WaitPod(ctx, "default", name, isDeleted)
	}
	detached(ctx, t, c, d)
}
