package csitest

import (
	"context"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// SetVolumeHealth has the driver say of a volume what is wrong with it, whatever the volume is;
// with nothing it is well. An entry is taken as it is: it may be one that no driver may send.
func (d *Driver) SetVolumeHealth(volume string, with ...*csipb.VolumeHealth_VolumeHealthEntry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.has.health == nil {
		d.has.health = map[string][]*csipb.VolumeHealth_VolumeHealthEntry{}
	}
	d.has.health[volume] = with
}

// SetStorageHealth has the driver say what is wrong with its storage.
func (d *Driver) SetStorageHealth(with ...*csipb.NodeGetStorageHealthResponse_StorageBackendHealth) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.has.storage = with
}

// NodeGetVolumeHealth is what SetVolumeHealth was told.
func (d *Driver) NodeGetVolumeHealth(_ context.Context,
	r *csipb.NodeGetVolumeHealthRequest) (*csipb.NodeGetVolumeHealthResponse, error) {
	if r.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id is required")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return &csipb.NodeGetVolumeHealthResponse{VolumeHealth: &csipb.VolumeHealth{VolumeId: r.GetVolumeId(),
		HealthStatuses: d.has.health[r.GetVolumeId()]}}, nil
}

// NodeGetStorageHealth is what SetStorageHealth was told.
func (d *Driver) NodeGetStorageHealth(context.Context,
	*csipb.NodeGetStorageHealthRequest) (*csipb.NodeGetStorageHealthResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &csipb.NodeGetStorageHealthResponse{BackendHealth: d.has.storage}, nil
}
