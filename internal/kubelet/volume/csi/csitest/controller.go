package csitest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// backend is what the driver has made.
type backend struct {
	staged    map[string]string        // path by volume
	published map[string]string        // volume by path
	volumes   map[string]*csipb.Volume // by id
	snapshots map[string]*csipb.Snapshot
	attached  map[string]string                                  // node by volume
	block     map[string]bool                                    // by volume
	nodes     []string                                           // ids besides Info's
	refused   []string                                           // attachments to a second node
	health    map[string][]*csipb.VolumeHealth_VolumeHealthEntry // by volume
	storage   []*csipb.NodeGetStorageHealthResponse_StorageBackendHealth
}

func newBackend() backend {
	return backend{staged: map[string]string{}, published: map[string]string{},
		volumes: map[string]*csipb.Volume{}, snapshots: map[string]*csipb.Snapshot{},
		attached: map[string]string{}, block: map[string]bool{}}
}

// maxSize is what the driver's imagined disk has.
const maxSize = 1 << 40

// GetPluginInfo is the name.
func (d *Driver) GetPluginInfo(context.Context, *csipb.GetPluginInfoRequest) (*csipb.GetPluginInfoResponse, error) {
	return &csipb.GetPluginInfoResponse{Name: d.Name, VendorVersion: "1"}, nil
}

// GetPluginCapabilities has a controller when Controls says so.
func (d *Driver) GetPluginCapabilities(context.Context,
	*csipb.GetPluginCapabilitiesRequest) (*csipb.GetPluginCapabilitiesResponse, error) {
	out := &csipb.GetPluginCapabilitiesResponse{}
	if len(d.Controls) > 0 {
		out.Capabilities = append(out.Capabilities, &csipb.PluginCapability{Type: &csipb.PluginCapability_Service_{
			Service: &csipb.PluginCapability_Service{Type: csipb.PluginCapability_Service_CONTROLLER_SERVICE}}})
	}
	return out, nil
}

// Probe is a success.
func (d *Driver) Probe(context.Context, *csipb.ProbeRequest) (*csipb.ProbeResponse, error) {
	return &csipb.ProbeResponse{}, nil
}

// ControllerGetCapabilities is Controls.
func (d *Driver) ControllerGetCapabilities(context.Context,
	*csipb.ControllerGetCapabilitiesRequest) (*csipb.ControllerGetCapabilitiesResponse, error) {
	out := &csipb.ControllerGetCapabilitiesResponse{}
	for _, c := range d.Controls {
		out.Capabilities = append(out.Capabilities, &csipb.ControllerServiceCapability{
			Type: &csipb.ControllerServiceCapability_Rpc{Rpc: &csipb.ControllerServiceCapability_RPC{Type: c}}})
	}
	return out, nil
}

// CreateVolume keeps a volume, whose id is made from its name.
func (d *Driver) CreateVolume(_ context.Context, r *csipb.CreateVolumeRequest) (*csipb.CreateVolumeResponse, error) {
	if r.GetName() == "" || len(r.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "name and volume_capabilities are required")
	}
	if err := checkMutable(r.GetMutableParameters()); err != nil {
		return nil, err
	}
	size := cmp.Or(r.GetCapacityRange().GetRequiredBytes(), r.GetCapacityRange().GetLimitBytes(), 1<<30)
	if size > maxSize {
		return nil, status.Error(codes.OutOfRange, "too big")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, "CreateVolume "+r.GetName())
	if id := r.GetVolumeContentSource().GetSnapshot().GetSnapshotId(); id != "" && d.has.snapshots[id] == nil {
		return nil, status.Errorf(codes.NotFound, "there is no snapshot %s", id)
	}
	if id := r.GetVolumeContentSource().GetVolume().GetVolumeId(); id != "" && d.has.volumes[id] == nil {
		return nil, status.Errorf(codes.NotFound, "there is no volume %s", id)
	}
	id := "vol-" + r.GetName()
	if v := d.has.volumes[id]; v != nil {
		limit := r.GetCapacityRange().GetLimitBytes()
		if v.CapacityBytes < r.GetCapacityRange().GetRequiredBytes() || limit > 0 && v.CapacityBytes > limit {
			return nil, status.Errorf(codes.AlreadyExists, "volume %s is there with another size", id)
		}
		return &csipb.CreateVolumeResponse{Volume: v}, nil
	}
	d.has.block[id] = r.GetVolumeCapabilities()[0].GetBlock() != nil
	d.has.volumes[id] = &csipb.Volume{VolumeId: id, CapacityBytes: size, ContentSource: r.GetVolumeContentSource()}
	return &csipb.CreateVolumeResponse{Volume: d.has.volumes[id]}, nil
}

// DeleteVolume refuses volumes that are attached.
func (d *Driver) DeleteVolume(_ context.Context, r *csipb.DeleteVolumeRequest) (*csipb.DeleteVolumeResponse, error) {
	if r.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id is missing")
	}
	d.note("DeleteVolume", r)
	d.mu.Lock()
	defer d.mu.Unlock()
	if node, is := d.has.attached[r.GetVolumeId()]; is {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is attached to %s", r.GetVolumeId(), node)
	}
	delete(d.has.volumes, r.GetVolumeId())
	return &csipb.DeleteVolumeResponse{}, nil
}

// known is an error for a volume that there is not. The caller holds mu.
func (d *Driver) known(id string) error {
	switch {
	case id == "":
		return status.Error(codes.InvalidArgument, "volume_id is missing")
	case d.has.volumes[id] == nil:
		return status.Errorf(codes.NotFound, "there is no volume %s", id)
	}
	return nil
}

// ControllerPublishVolume attaches a volume to one node.
func (d *Driver) ControllerPublishVolume(_ context.Context,
	r *csipb.ControllerPublishVolumeRequest) (*csipb.ControllerPublishVolumeResponse, error) {
	d.note("ControllerPublishVolume", r)
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.GetNodeId() == "" || r.GetVolumeCapability() == nil {
		return nil, status.Error(codes.InvalidArgument, "node_id and volume_capability are required")
	}
	if err := d.known(r.GetVolumeId()); err != nil {
		return nil, err
	}
	if r.GetNodeId() != d.Info.NodeId && !slices.Contains(d.has.nodes, r.GetNodeId()) {
		return nil, status.Errorf(codes.NotFound, "there is no node %s", r.GetNodeId())
	}
	if node, is := d.has.attached[r.GetVolumeId()]; is && node != r.GetNodeId() {
		d.has.refused = append(d.has.refused, r.GetVolumeId()+" to "+r.GetNodeId())
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is attached to %s", r.GetVolumeId(), node)
	}
	d.has.attached[r.GetVolumeId()] = r.GetNodeId()
	return &csipb.ControllerPublishVolumeResponse{PublishContext: map[string]string{"device": "/dev/" +
		r.GetVolumeId()}}, nil
}

// ControllerUnpublishVolume detaches a volume that no longer is staged.
func (d *Driver) ControllerUnpublishVolume(_ context.Context,
	r *csipb.ControllerUnpublishVolumeRequest) (*csipb.ControllerUnpublishVolumeResponse, error) {
	if r.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id is missing")
	}
	d.note("ControllerUnpublishVolume", r)
	d.mu.Lock()
	defer d.mu.Unlock()
	if at, is := d.has.staged[r.GetVolumeId()]; is {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is still staged at %s", r.GetVolumeId(), at)
	}
	delete(d.has.attached, r.GetVolumeId())
	return &csipb.ControllerUnpublishVolumeResponse{}, nil
}

// ValidateVolumeCapabilities confirms everything.
func (d *Driver) ValidateVolumeCapabilities(_ context.Context,
	r *csipb.ValidateVolumeCapabilitiesRequest) (*csipb.ValidateVolumeCapabilitiesResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.known(r.GetVolumeId()); err != nil {
		return nil, err
	}
	if len(r.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "volume_capabilities are missing")
	}
	all := &csipb.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: r.GetVolumeCapabilities()}
	return &csipb.ValidateVolumeCapabilitiesResponse{Confirmed: all}, nil
}

// ControllerExpandVolume makes a volume bigger, and the node's turn follows.
func (d *Driver) ControllerExpandVolume(_ context.Context,
	r *csipb.ControllerExpandVolumeRequest) (*csipb.ControllerExpandVolumeResponse, error) {
	d.note("ControllerExpandVolume", r)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.known(r.GetVolumeId()); err != nil {
		return nil, err
	}
	if r.GetCapacityRange() == nil {
		return nil, status.Error(codes.InvalidArgument, "capacity_range is missing")
	}
	v := d.has.volumes[r.GetVolumeId()]
	v.CapacityBytes = max(v.CapacityBytes, r.GetCapacityRange().GetRequiredBytes())
	return &csipb.ControllerExpandVolumeResponse{CapacityBytes: v.CapacityBytes, NodeExpansionRequired: true}, nil
}

// Mutable is the parameter of VolumeAttributesClasses that the driver knows.
const Mutable = "iops"

// ControllerModifyVolume takes what a VolumeAttributesClass says of a volume, in Request.
func (d *Driver) ControllerModifyVolume(_ context.Context,
	r *csipb.ControllerModifyVolumeRequest) (*csipb.ControllerModifyVolumeResponse, error) {
	d.note("ControllerModifyVolume", r)
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id is missing")
	}
	if err := d.known(r.GetVolumeId()); err != nil {
		return nil, err
	}
	return &csipb.ControllerModifyVolumeResponse{}, checkMutable(r.GetMutableParameters())
}

func checkMutable(parameters map[string]string) error {
	for key := range parameters {
		if key != Mutable {
			return status.Errorf(codes.InvalidArgument, "parameter %s is not known", key)
		}
	}
	return nil
}

// GetCapacity is what is left of the imagined disk.
func (d *Driver) GetCapacity(context.Context, *csipb.GetCapacityRequest) (*csipb.GetCapacityResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := int64(maxSize)
	for _, v := range d.has.volumes {
		left -= v.CapacityBytes
	}
	return &csipb.GetCapacityResponse{AvailableCapacity: max(0, left)}, nil
}

// part is a part of a list, and the token of the next.
type part struct {
	from, to int
	next     string
}

// partOf is the part of a list of count that is asked for.
func partOf(count int, token string, most int32) (p part, err error) {
	if token != "" {
		if p.from, err = strconv.Atoi(token); err != nil || p.from < 0 || p.from > count {
			return p, status.Errorf(codes.Aborted, "starting_token %q is not one of this list", token)
		}
	}
	if p.to = count; most > 0 && p.from+int(most) < count {
		p.to = p.from + int(most)
		p.next = fmt.Sprint(p.to)
	}
	return p, nil
}

// ListVolumes lists all, by id.
func (d *Driver) ListVolumes(_ context.Context, r *csipb.ListVolumesRequest) (*csipb.ListVolumesResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := &csipb.ListVolumesResponse{}
	for id, v := range d.has.volumes {
		e := &csipb.ListVolumesResponse_Entry{Volume: v, Status: &csipb.ListVolumesResponse_VolumeStatus{}}
		if node, is := d.has.attached[id]; is {
			e.Status.PublishedNodeIds = []string{node}
		}
		out.Entries = append(out.Entries, e)
	}
	slices.SortFunc(out.Entries, func(a, b *csipb.ListVolumesResponse_Entry) int {
		return strings.Compare(a.Volume.VolumeId, b.Volume.VolumeId)
	})
	p, err := partOf(len(out.Entries), r.GetStartingToken(), r.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	out.Entries, out.NextToken = out.Entries[p.from:p.to], p.next
	return out, nil
}

// CreateSnapshot keeps a snapshot of a volume.
func (d *Driver) CreateSnapshot(_ context.Context,
	r *csipb.CreateSnapshotRequest) (*csipb.CreateSnapshotResponse, error) {
	if r.GetName() == "" || r.GetSourceVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "name and source_volume_id are required")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, "CreateSnapshot "+r.GetName())
	id := "snap-" + r.GetName()
	if s := d.has.snapshots[id]; s != nil {
		if s.SourceVolumeId != r.GetSourceVolumeId() {
			return nil, status.Errorf(codes.AlreadyExists, "snapshot %s is there, of volume %s", id, s.SourceVolumeId)
		}
		return &csipb.CreateSnapshotResponse{Snapshot: s}, nil
	}
	if err := d.known(r.GetSourceVolumeId()); err != nil {
		return nil, err
	}
	s := &csipb.Snapshot{SnapshotId: id, SourceVolumeId: r.GetSourceVolumeId(), ReadyToUse: true,
		SizeBytes: d.has.volumes[r.GetSourceVolumeId()].CapacityBytes, CreationTime: timestamppb.New(time.Now())}
	d.has.snapshots[id] = s
	return &csipb.CreateSnapshotResponse{Snapshot: s}, nil
}

// DeleteSnapshot forgets a snapshot.
func (d *Driver) DeleteSnapshot(_ context.Context,
	r *csipb.DeleteSnapshotRequest) (*csipb.DeleteSnapshotResponse, error) {
	if r.GetSnapshotId() == "" {
		return nil, status.Error(codes.InvalidArgument, "snapshot_id is missing")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, "DeleteSnapshot "+r.GetSnapshotId())
	delete(d.has.snapshots, r.GetSnapshotId())
	return &csipb.DeleteSnapshotResponse{}, nil
}

// ListSnapshots lists those asked for, by id.
func (d *Driver) ListSnapshots(_ context.Context, r *csipb.ListSnapshotsRequest) (*csipb.ListSnapshotsResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := &csipb.ListSnapshotsResponse{}
	for id, s := range d.has.snapshots {
		if (r.GetSnapshotId() == "" || r.GetSnapshotId() == id) &&
			(r.GetSourceVolumeId() == "" || r.GetSourceVolumeId() == s.SourceVolumeId) {
			out.Entries = append(out.Entries, &csipb.ListSnapshotsResponse_Entry{Snapshot: s})
		}
	}
	slices.SortFunc(out.Entries, func(a, b *csipb.ListSnapshotsResponse_Entry) int {
		return strings.Compare(a.Snapshot.SnapshotId, b.Snapshot.SnapshotId)
	})
	p, err := partOf(len(out.Entries), r.GetStartingToken(), r.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	out.Entries, out.NextToken = out.Entries[p.from:p.to], p.next
	return out, nil
}
