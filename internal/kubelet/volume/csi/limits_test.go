package csi_test

import (
	"context"
	"slices"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/kubelet/volume/csi"
	"github.com/gantry-project/gantry/internal/kubelet/volume/csi/csitest"
	"github.com/gantry-project/gantry/test/expect"
)

// row: CSI-03
// A driver is asked how many volumes the node can have as often as its CSIDriver says, from when
// the object says so, and not when it says nothing.
func TestLimitsAreUpdated(t *testing.T) {
	info := &nodeInfo{updated: make(chan string)}
	drivers := csi.NewDrivers(t.Context(), info)
	for _, name := range []string{"changes", "stays"} {
		d := (&csitest.Driver{Name: name, Info: &csipb.NodeGetInfoResponse{NodeId: "n", MaxVolumesPerNode: 7}}).Start(t)
		if err := drivers.RegisterPlugin(name, d.Endpoint(), nil); err != nil {
			t.Fatal(err)
		}
	}
	objects := make(chan *storagev1.CSIDriver, 1)
	objects <- nil
	u := &csi.LimitUpdater{Drivers: drivers, Driver: func(name string) *storagev1.CSIDriver {
		if name == "stays" {
			return &storagev1.CSIDriver{}
		}
		obj := <-objects
		objects <- obj
		return obj
	}}
	go u.Run(t.Context())
	select {
	case got := <-info.updated:
		t.Errorf("got an update %s, want none before there is a period", got)
	default:
	}
	one := int64(1)
	<-objects
	objects <- &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{NodeAllocatableUpdatePeriodSeconds: &one}}
	u.Changed()
	for n := range 2 {
		select {
		case got := <-info.updated:
			if got != "changes 7" {
				t.Errorf("got an update %s, want changes 7", got)
			}
		case <-time.After(expect.Patience(time.Minute)):
			t.Fatalf("got %d updates, want 2: the driver is asked once in a second", n)
		}
	}
}

// neverAttached is a node to which nothing is attached in time.
type neverAttached struct{}

func (neverAttached) WaitAttached(context.Context, v1.UniqueVolumeName) error {
	return context.DeadlineExceeded
}
func (neverAttached) Unused(v1.UniqueVolumeName) {}

// An attacher that says that the node can have no more volumes has the limit updated at once, if
// the driver's may change, and the Pod ends in upstream's words.
func TestAnExhaustedNodeUpdatesItsLimit(t *testing.T) {
	period, exhausted, other := int64(60), int32(8), int32(13)
	for _, c := range []struct {
		period *int64
		code   *int32
		want   []string
	}{{&period, &exhausted, []string{"disk.example.com 3"}}, {&period, &other, nil}, {&period, nil, nil},
		{nil, &exhausted, nil}} {
		r := newRig(t)
		r.api.driver = &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{NodeAllocatableUpdatePeriodSeconds: c.period}}
		r.driver.Info = &csipb.NodeGetInfoResponse{NodeId: "n", MaxVolumesPerNode: 3}
		r.api.attached = &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: csi.AttachmentName(handle, "disk.example.com", "n1")},
			Status: storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{Message: "full",
				ErrorCode: c.code}}}
		r.waits = neverAttached{}
		r.start()
		r.register()
		r.info.updated = make(chan string, 1)
		want := `FailedMount: MountVolume.WaitForAttach failed for volume "pv" : timed out waiting for ` +
			"external-attacher of disk.example.com CSI driver to attach volume " + handle
		if got := r.refused(claiming("a")); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		close(r.info.updated)
		var got []string
		for update := range r.info.updated {
			got = append(got, update)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("period %v, code %v: got the updates %q, want %q", c.period, c.code, got, c.want)
		}
		var ended []string
		if c.want != nil {
			ended = []string{"a VolumeAttachmentLimitExceeded Pod was rejected: Node has reached its volume " +
				"attachment limit, rejecting pod. unmounted volumes=[v], unattached volumes=[v], failed to process " +
				"volumes=[]: context deadline exceeded"}
		}
		if !slices.Equal(r.ended, ended) {
			t.Errorf("period %v, code %v: got the rejected Pods %q, want %q", c.period, c.code, r.ended, ended)
		}
	}
}
