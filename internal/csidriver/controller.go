package csidriver

import (
	"context"
	"os"
	"path/filepath"
	"strconv"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gantry-project/gantry/internal/linux/loop"
)

// ControllerGetCapabilities is what the controller service does.
func (d *Driver) ControllerGetCapabilities(context.Context,
	*csipb.ControllerGetCapabilitiesRequest) (*csipb.ControllerGetCapabilitiesResponse, error) {
	out := &csipb.ControllerGetCapabilitiesResponse{}
	for _, t := range []csipb.ControllerServiceCapability_RPC_Type{
		csipb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csipb.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csipb.ControllerServiceCapability_RPC_GET_CAPACITY, csipb.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csipb.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csipb.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csipb.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csipb.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
		csipb.ControllerServiceCapability_RPC_GET_VOLUME_HEALTH,
	} {
		out.Capabilities = append(out.Capabilities, &csipb.ControllerServiceCapability{
			Type: &csipb.ControllerServiceCapability_Rpc{Rpc: &csipb.ControllerServiceCapability_RPC{Type: t}}})
	}
	return out, nil
}

// checkCapabilities refuses what volumes of one node cannot be; block is whether they are raw.
func checkCapabilities(all []*csipb.VolumeCapability) (block bool, err error) {
	if len(all) == 0 {
		return false, status.Error(codes.InvalidArgument, "volume capabilities are missing")
	}
	mount := false
	for _, c := range all {
		if c.GetAccessMode() == nil {
			return false, status.Error(codes.InvalidArgument, "an access mode is missing")
		}
		switch {
		case c.GetBlock() != nil:
			block = true
		case c.GetMount() != nil:
			mount = true
		default:
			return false, status.Error(codes.InvalidArgument, "an access type is missing: block or mount")
		}
		switch m := c.GetAccessMode().GetMode(); m {
		case csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER,
			csipb.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
			csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
			csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:
		default:
			return false,
				status.Errorf(codes.InvalidArgument, "access mode %s is not served: volumes are of one node", m)
		}
	}
	if block && mount {
		return false, status.Error(codes.InvalidArgument, "a volume is either raw or has a file system")
	}
	_, err = fsTypeIn(all)
	return block, err
}

// CreateVolume makes a volume on this node, or finds that it is there.
func (d *Driver) CreateVolume(ctx context.Context, r *csipb.CreateVolumeRequest) (*csipb.CreateVolumeResponse, error) {
	if r.GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "name is missing")
	}
	block, err := checkCapabilities(r.GetVolumeCapabilities())
	if err != nil {
		return nil, err
	}
	if err := d.checkTopology(r.GetAccessibilityRequirements()); err != nil {
		return nil, err
	}
	v, err := newRecord(idOf(r.GetName()), r.GetParameters(), r.GetVolumeCapabilities())
	if err != nil {
		return nil, err
	}
	v.Name = r.GetName()
	if v.Size, err = sizeIn(r.GetCapacityRange(), v.smallest()); err != nil {
		return nil, err
	}
	switch s := r.GetVolumeContentSource(); {
	case s.GetSnapshot() != nil:
		v.Source = "snapshot/" + s.GetSnapshot().GetSnapshotId()
	case s.GetVolume() != nil:
		v.Source = "volume/" + s.GetVolume().GetVolumeId()
	}
	unlock, err := d.locks.lock(ctx, v.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	old, err := d.store.volumes.get(v.ID)
	if err != nil {
		return nil, err
	}
	if old != nil {
		limit := r.GetCapacityRange().GetLimitBytes()
		if old.Size < r.GetCapacityRange().GetRequiredBytes() || limit > 0 && old.Size > limit || old.Block != block ||
			old.Source != v.Source || old.checkFSType(v.NewFS) != nil {
			return nil, status.Errorf(codes.AlreadyExists, "volume %s is there with another size, mode, source or "+
				"file system", v.Name)
		}
		return d.created(old, r.GetVolumeContentSource()), nil
	}
	if err := d.fill(ctx, v); err != nil {
		return nil, err
	}
	return d.created(v, r.GetVolumeContentSource()), nil
}

func (d *Driver) created(v *record, source *csipb.VolumeContentSource) *csipb.CreateVolumeResponse {
	return &csipb.CreateVolumeResponse{Volume: &csipb.Volume{VolumeId: v.ID, CapacityBytes: v.Size,
		ContentSource: source, AccessibleTopology: []*csipb.Topology{d.topology()}}}
}

func (d *Driver) topology() *csipb.Topology {
	return &csipb.Topology{Segments: map[string]string{TopologyKey: d.o.NodeID}}
}

// checkTopology refuses volumes that have to be on other nodes.
func (d *Driver) checkTopology(r *csipb.TopologyRequirement) error {
	if len(r.GetRequisite()) == 0 {
		return nil
	}
	for _, t := range r.GetRequisite() {
		if node, ok := t.GetSegments()[TopologyKey]; !ok || node == d.o.NodeID {
			return nil
		}
	}
	return status.Errorf(codes.ResourceExhausted, "volumes are made on node %s only, which is not asked for",
		d.o.NodeID)
}

// fill makes the volume's data: empty, or a copy of its source.
func (d *Driver) fill(ctx context.Context, v *record) error {
	if v.Source != "" {
		unlock, err := d.sources.lock(ctx, v.Source)
		if err != nil {
			return err
		}
		defer unlock()
	}
	from, err := d.openSource(v)
	if err != nil {
		return err
	}
	defer from.release()
	made, err := d.store.reserveFor(d.store.volumes, v)
	if err != nil {
		return err
	}
	defer made()
	return d.store.volumes.create(v, func(dir string) error {
		if v.Kind == kindDirectory {
			if err := d.makeDataDir(filepath.Join(dir, "data"), v); err != nil {
				return err
			}
		}
		if from.path != "" {
			if err := d.copy(ctx, from, dir); err != nil {
				return err
			}
		}
		if v.Kind == kindImage {
			return growImage(filepath.Join(dir, "disk.img"), v.Size)
		}
		return nil
	})
}

// makeDataDir makes the directory of a volume's files, with its limit if there are quotas.
func (d *Driver) makeDataDir(data string, v *record) error {
	if err := os.Mkdir(data, 0o777); err != nil {
		return err
	}
	if err := os.Chmod(data, 0o777); err != nil || v.Project == 0 {
		return err
	}
	if err := d.store.quotas.assign(data, v.Project); err != nil {
		return err
	}
	return d.store.quotas.limit(v.Project, v.Size)
}

// remove takes a volume away that nothing uses, with its limit.
func (d *Driver) remove(v *record) error {
	if v.Kind == kindImage {
		if err := loop.Detach(d.store.volumes.image(v.ID)); err != nil {
			return err
		}
	}
	if err := d.store.volumes.remove(v.ID); err != nil || v.Project == 0 || d.store.quotas == nil {
		return err
	}
	return d.store.quotas.limit(v.Project, 0)
}

// DeleteVolume removes a volume that nobody uses.
func (d *Driver) DeleteVolume(ctx context.Context, r *csipb.DeleteVolumeRequest) (*csipb.DeleteVolumeResponse, error) {
	id := r.GetVolumeId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id is missing")
	}
	unlock, err := d.acquireLock(ctx, id, "volume/"+id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	v, err := d.store.volumes.get(id)
	if err != nil || v == nil {
		return &csipb.DeleteVolumeResponse{}, err
	}
	if at, err := mountsOf(d.store.volumes, v); err != nil {
		return nil, err
	} else if len(at) > 0 {
		return nil, status.Errorf(codes.FailedPrecondition, "volume %s is mounted at %s", id, at[0])
	}
	return &csipb.DeleteVolumeResponse{}, d.remove(v)
}

// ValidateVolumeCapabilities confirms what CreateVolume would take.
func (d *Driver) ValidateVolumeCapabilities(_ context.Context,
	r *csipb.ValidateVolumeCapabilitiesRequest) (*csipb.ValidateVolumeCapabilitiesResponse, error) {
	v, err := d.volume(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	if len(r.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "volume capabilities are missing")
	}
	block, err := checkCapabilities(r.GetVolumeCapabilities())
	if fs, _ := fsTypeIn(r.GetVolumeCapabilities()); err == nil {
		err = v.checkFSType(fs)
	}
	if err != nil {
		return &csipb.ValidateVolumeCapabilitiesResponse{Message: status.Convert(err).Message()}, nil
	}
	if block != v.Block {
		return &csipb.ValidateVolumeCapabilitiesResponse{Message: "the volume's mode is another"}, nil
	}
	return &csipb.ValidateVolumeCapabilitiesResponse{Confirmed: &csipb.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: r.GetVolumeContext(), VolumeCapabilities: r.GetVolumeCapabilities(),
		Parameters: r.GetParameters()}}, nil
}

// volume is the record of an id; an error of gRPC when there is none.
func (d *Driver) volume(id string) (*record, error) {
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "volume_id is missing")
	}
	v, err := d.store.volumes.get(id)
	if err == nil && v == nil {
		err = status.Errorf(codes.NotFound, "there is no volume %s on node %s", id, d.o.NodeID)
	}
	return v, err
}

// GetCapacity is what can still be promised on this node.
func (d *Driver) GetCapacity(_ context.Context, r *csipb.GetCapacityRequest) (*csipb.GetCapacityResponse, error) {
	if node, ok := r.GetAccessibleTopology().GetSegments()[TopologyKey]; ok && node != d.o.NodeID {
		return &csipb.GetCapacityResponse{}, nil
	}
	d.store.mu.Lock()
	defer d.store.mu.Unlock()
	free, err := d.store.available()
	return &csipb.GetCapacityResponse{AvailableCapacity: free}, err
}

// listPage is a part of a list, and the token of the next.
type listPage struct {
	from, to int
	next     string
}

// page is the part of a list that is asked for, and the token of the next.
func page(count int, token string, most int32) (p listPage, err error) {
	if token != "" {
		if p.from, err = strconv.Atoi(token); err != nil || p.from < 0 || p.from > count {
			return p, status.Errorf(codes.Aborted, "starting_token %q is not one of this list", token)
		}
	}
	p.to = count
	if most > 0 && p.from+int(most) < count {
		p.to = p.from + int(most)
		p.next = strconv.Itoa(p.to)
	}
	return p, nil
}

// ListVolumes lists the node's volumes.
func (d *Driver) ListVolumes(_ context.Context, r *csipb.ListVolumesRequest) (*csipb.ListVolumesResponse, error) {
	all, err := d.store.volumes.list()
	if err != nil {
		return nil, err
	}
	p, err := page(len(all), r.GetStartingToken(), r.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	out := &csipb.ListVolumesResponse{NextToken: p.next}
	for _, v := range all[p.from:p.to] {
		out.Entries = append(out.Entries, &csipb.ListVolumesResponse_Entry{Volume: &csipb.Volume{VolumeId: v.ID,
			CapacityBytes: v.Size, AccessibleTopology: []*csipb.Topology{d.topology()}}})
	}
	return out, nil
}

// ControllerExpandVolume makes the volume bigger; the node grows its file system.
func (d *Driver) ControllerExpandVolume(ctx context.Context,
	r *csipb.ControllerExpandVolumeRequest) (*csipb.ControllerExpandVolumeResponse, error) {
	if r.GetCapacityRange() == nil && r.GetVolumeId() != "" {
		return nil, status.Error(codes.InvalidArgument, "capacity_range is missing")
	}
	unlock, err := d.acquireLock(ctx, r.GetVolumeId(), "volume/"+r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	v, err := d.volume(r.GetVolumeId())
	if err != nil {
		return nil, err
	}
	size, err := sizeIn(r.GetCapacityRange(), minSize)
	if err != nil {
		return nil, err
	}
	if size > v.Size {
		d.store.mu.Lock()
		defer d.store.mu.Unlock()
		if err := d.store.reserve(size - v.Size); err != nil {
			return nil, err
		}
		if v.Kind == kindImage {
			if err := growImage(d.store.volumes.image(v.ID), size); err != nil {
				return nil, err
			}
		}
		if v.Project != 0 && d.store.quotas != nil {
			if err := d.store.quotas.limit(v.Project, size); err != nil {
				return nil, err
			}
		}
		v.Size = size
		if err := d.store.volumes.put(v); err != nil {
			return nil, err
		}
	}
	return &csipb.ControllerExpandVolumeResponse{CapacityBytes: v.Size,
		NodeExpansionRequired: v.Kind == kindImage}, nil
}
