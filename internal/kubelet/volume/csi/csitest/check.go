package csitest

import (
	"os"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// check refuses requests without what the protocol requires, and those of the node about volumes
// that the controller service, if there is one, did not make.
func (d *Driver) check(req any) error {
	type ofVolume interface{ GetVolumeId() string }
	var path string
	complete := true
	switch r := req.(type) {
	case *csipb.NodeStageVolumeRequest:
		path, complete = r.GetStagingTargetPath(), r.GetVolumeCapability() != nil
	case *csipb.NodeUnstageVolumeRequest:
		path = r.GetStagingTargetPath()
	case *csipb.NodePublishVolumeRequest:
		path, complete = r.GetTargetPath(), r.GetVolumeCapability() != nil
	case *csipb.NodeUnpublishVolumeRequest:
		path = r.GetTargetPath()
	case *csipb.NodeExpandVolumeRequest:
		path = r.GetVolumePath()
	case *csipb.NodeGetVolumeStatsRequest:
		path = r.GetVolumePath()
	default:
		return nil
	}
	id := req.(ofVolume).GetVolumeId()
	if id == "" || path == "" || !complete {
		return status.Error(codes.InvalidArgument, "volume_id, the path and the capability are required")
	}
	switch req.(type) {
	case *csipb.NodeUnstageVolumeRequest, *csipb.NodeUnpublishVolumeRequest: // may follow the volume's end
		return nil
	}
	if len(d.Controls) == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.known(id); err != nil {
		return err
	}
	switch req.(type) {
	case *csipb.NodeExpandVolumeRequest, *csipb.NodeGetVolumeStatsRequest:
		if _, err := os.Stat(path); err != nil {
			return status.Errorf(codes.NotFound, "nothing is published at %s", path)
		}
	}
	return nil
}
