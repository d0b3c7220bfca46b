package csitest_test

import (
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/gantry-project/gantry/internal/kubelet/volume/csi/csitest"
	"github.com/gantry-project/gantry/test/csisanity"
)

// The driver of tests obeys the protocol: csi-sanity of csi-test v5, whole.
func TestSanity(t *testing.T) {
	d := (&csitest.Driver{Name: "disk.example.com",
		Capabilities: []csipb.NodeServiceCapability_RPC_Type{csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
			csipb.NodeServiceCapability_RPC_EXPAND_VOLUME, csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS,
			csipb.NodeServiceCapability_RPC_GET_VOLUME_HEALTH,
			csipb.NodeServiceCapability_RPC_GET_STORAGE_HEALTH},
		Controls: []csipb.ControllerServiceCapability_RPC_Type{
			csipb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
			csipb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
			csipb.ControllerServiceCapability_RPC_LIST_VOLUMES, csipb.ControllerServiceCapability_RPC_GET_CAPACITY,
			csipb.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
			csipb.ControllerServiceCapability_RPC_LIST_SNAPSHOTS, csipb.ControllerServiceCapability_RPC_CLONE_VOLUME,
			csipb.ControllerServiceCapability_RPC_EXPAND_VOLUME,
			csipb.ControllerServiceCapability_RPC_MODIFY_VOLUME}}).Start(t)
	csisanity.Run(t, d.Endpoint(), d.Dir, csisanity.Mode{})
}
