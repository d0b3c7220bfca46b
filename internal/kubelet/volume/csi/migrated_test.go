package csi_test

import (
	"slices"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/kubelet/volume/claim"
	"github.com/gantry-project/gantry/internal/kubelet/volume/csi/csitest"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumetest"
)

// row: CSI-01
// A volume of an in-tree plugin, behind a claim or not, is staged and published by the CSI driver
// that took the plugin over, once also by a kubelet that starts anew, and taken away by it.
func TestVolumesOfInTreePluginsAreTheirDrivers(t *testing.T) {
	disk := &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://zone/vol-1", FSType: "xfs", Partition: 2}
	for name, source := range map[string]v1.VolumeSource{
		"inline": {AWSElasticBlockStore: disk},
		"claim":  {PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			ebs := (&csitest.Driver{Name: "ebs.csi.aws.com", Capabilities: []csipb.NodeServiceCapability_RPC_Type{
				csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}}).Start(t)
			register := func() {
				if err := r.drivers.RegisterPlugin(ebs.Name, ebs.Endpoint(), nil); err != nil {
					t.Fatal(err)
				}
			}
			objects := volumetest.NewObjects()
			objects.Claims["ns/data"] = &v1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "c"},
				Spec:       v1.PersistentVolumeClaimSpec{VolumeName: "pv"},
				Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound}}
			objects.Volumes["pv"] = &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"},
				Spec: v1.PersistentVolumeSpec{ClaimRef: &v1.ObjectReference{UID: "c"},
					AccessModes:            []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
					PersistentVolumeSource: v1.PersistentVolumeSource{AWSElasticBlockStore: disk}}}
			r.resolver = &claim.Resolver{Claims: objects}
			register()
			pod := claiming("1")
			pod.Spec.Volumes[0].VolumeSource = source
			calls := func(want ...string) {
				t.Helper()
				for i := range want {
					want[i] += " vol-1"
				}
				if got := ebs.Calls(); !slices.Equal(got, want) {
					t.Errorf("got the calls %q, want %q", got, want)
				}
			}
			r.mount(pod)
			calls("NodeStageVolume", "NodePublishVolume")
			got := ebs.Request("NodeStageVolume").(*csipb.NodeStageVolumeRequest)
			if got.GetVolumeContext()["partition"] != "2" || got.GetVolumeCapability().GetMount().GetFsType() != "xfs" {
				t.Errorf("got staged with %v, want partition 2 and xfs", got)
			}
			r.start()
			register()
			r.mount(pod)
			calls("NodePublishVolume")
			r.operations = nil
			r.unmount("1")
			calls("NodeUnpublishVolume", "NodeUnstageVolume")
		})
	}
}
