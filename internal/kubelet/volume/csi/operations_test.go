package csi_test

import (
	"fmt"
	"slices"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/csi"
)

// done wants these operations, and forgets them: name, ! after one that failed, and labels.
func (r *rig) done(what string, want ...string) {
	r.t.Helper()
	var out []string
	for _, o := range r.operations {
		text := o.Name
		if o.Err != nil {
			text += "!"
		}
		if o.Migrated {
			text += " migrated"
		}
		if o.Plugin != "csi" || o.Driver != "disk.example.com" {
			text += fmt.Sprintf(" of %s:%s", o.Plugin, o.Driver)
		}
		if (o.Overall > 0) != (o.Name == "volume_mount" && o.Err == nil) {
			text += fmt.Sprintf(" overall %s", o.Overall)
		}
		out = append(out, text)
	}
	r.operations = nil
	if !slices.Equal(out, want) {
		r.t.Errorf("%s: got the operations %q, want %q", what, out, want)
	}
}

// row: OPS-11
// Each operation that upstream's executor measures is told once, with its end.
func TestOperationsAreMeasured(t *testing.T) {
	r := newRig(t)
	r.mount(claiming("1"))
	r.done("first Pod", "verify_controller_attached_volume", "volume_mount")
	r.mount(claiming("2"))
	r.done("second Pod of a staged volume", "volume_mount")
	r.mount(claiming("2"))
	r.done("a Pod that has its volume")
	r.unmount("1")
	r.done("first Pod goes", "volume_unmount")
	r.driver.Fail("NodeUnpublishVolume", status.Error(codes.Internal, "busy"))
	if err := r.UnmountVolumes(t.Context(), "2"); err == nil {
		t.Error("got no error of a volume that is busy")
	}
	r.done("a volume that is busy", "volume_unmount!")
	r.driver.ClearFaults("NodeUnpublishVolume")
	r.unmount("2")
	r.done("last Pod goes", "volume_unmount", "unmount_device")

	r.driver.Fail("NodeStageVolume", status.Error(codes.Internal, "no disk"))
	r.refused(claiming("3"))
	r.done("staging fails", "verify_controller_attached_volume", "volume_mount!")
	r.driver.ClearFaults("NodeStageVolume")
	pod := claiming("3")
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](0)}
	r.mount(pod)
	r.done("with a group", "verify_controller_attached_volume", "volume_apply_access_control", "volume_mount")
}

// row: OPS-11
// Raw, inline, migrated and growing volumes have names and labels of their own.
func TestOperationsOfOtherVolumes(t *testing.T) {
	raw, pod := ofRaw(t)
	raw.mount(pod("1"))
	raw.unmount("1")
	raw.done("raw", "verify_controller_attached_volume", "map_volume", "unmap_volume", "unmap_device")

	inline := newRig(t)
	inline.api.driver.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral}
	inline.api.driver.Spec.PodInfoOnMount = ptr.To(true)
	p := claiming("1")
	p.Spec.Volumes[0].VolumeSource = v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "disk.example.com"}}
	inline.mount(p)
	inline.unmount("1")
	inline.done("inline", "verify_controller_attached_volume", "volume_mount", "volume_unmount")

	migrated := newRig(t)
	migrated.spec.Migrated = true
	migrated.mount(claiming("1"))
	migrated.unmount("1")
	migrated.done("migrated", "verify_controller_attached_volume migrated", "volume_mount migrated",
		"volume_unmount migrated", "unmount_device migrated")

	growing := newRig(t, csipb.NodeServiceCapability_RPC_EXPAND_VOLUME)
	growing.mount(claiming("1"))
	growing.done("before it grows", "verify_controller_attached_volume", "volume_mount")
	growing.pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("2Gi")}
	var began []string
	args := volume.MounterArgs{Pod: claiming("1"), Spec: growing.spec, Began: func(operation string) func(error) {
		return func(err error) { began = append(began, fmt.Sprint(operation, " ", err)) }
	}, Data: volume.VolumeData{DriverName: "disk.example.com", VolumeHandle: handle}}
	plugin := csi.Plugin{Root: growing.root, NodeName: "n1", Drivers: growing.drivers, API: growing.api}
	for range 2 { // the second time there is nothing to do
		if _, err := plugin.NodeExpand(t.Context(), args, volume.Mounted{Path: "/x"}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"volume_fs_resize <nil>"}; !slices.Equal(began, want) {
		t.Errorf("a volume that grows: got the operations %q, want %q", began, want)
	}
}
