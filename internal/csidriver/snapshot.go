package csidriver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/gantry-project/gantry/internal/linux/loop"
)

// source is data that is copied.
type source struct {
	path    string // empty: there is none
	release func() // once it was copied; never nil
	// changes says that it is written to meanwhile: a copy is whole only when made in one step
	changes bool
}

// nothing is the source of a volume that begins empty.
func nothing() source { return source{release: func() {}} }

// openSource is what a volume is made from, held still until release. The volume gets the kind and
// the file system of its source.
func (d *Driver) openSource(v *record) (source, error) {
	kind, id, _ := strings.Cut(v.Source, "/")
	if kind == "" {
		return nothing(), nil
	}
	from := d.store.snapshots
	if kind == "volume" {
		from = d.store.volumes
	}
	if id == "" {
		return nothing(), status.Error(codes.InvalidArgument, "the source's id is missing")
	}
	s, err := from.get(id)
	switch {
	case err != nil:
		return nothing(), err
	case s == nil:
		return nothing(), status.Errorf(codes.NotFound, "there is no %s %s on node %s", kind, id, d.o.NodeID)
	case s.Size > v.Size:
		return nothing(), status.Errorf(codes.OutOfRange, "%s %s has %d bytes, the volume only %d", kind, id, s.Size,
			v.Size)
	case s.Block != v.Block:
		return nothing(), status.Errorf(codes.InvalidArgument, "the mode of %s %s is another", kind, id)
	}
	if has := s.fsType(); !v.Block && s.Kind == kindImage && v.NewFS != "" && v.NewFS != has {
		return nothing(), status.Errorf(codes.InvalidArgument, "%s %s has the file system %s, not %s", kind, id, has,
			v.NewFS)
	}
	v.Kind, v.FSType, v.NewFS = s.Kind, s.FSType, s.NewFS
	if kind == "volume" {
		return volumeSource(from, s)
	}
	return source{path: from.contents(s), release: func() {}}, nil
}

// volumeSource is a volume's data. A file system that is mounted stands still until it is released.
// A raw device in use has what was written so far on the disk and goes on. A directory in use is
// refused: its files cannot be copied in one step, and the node's own file system is not stopped.
func volumeSource(s recordDir, v *record) (source, error) {
	out := source{path: s.contents(v), release: func() {}}
	if v.Block {
		dev, err := loop.Device(resolvedPath(s.image(v.ID)))
		if err != nil || dev == "" {
			return out, err
		}
		out.changes = true
		return out, syncFile(dev)
	}
	at, err := mountsOf(s, v)
	switch {
	case err != nil || len(at) == 0:
	case v.Kind == kindDirectory:
		err = status.Errorf(codes.FailedPrecondition, "volume %s, a directory, is in use: its files would change "+
			"while they are copied. Stop the Pods that use it first", v.ID)
	default:
		out.release, err = freeze(s, v, at)
	}
	return out, err
}

// syncFile has on the disk what was written to a file or device.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// freeze has a file system stand still that is mounted at the given places: a copy is whole then.
func freeze(s recordDir, v *record, at []string) (thaw func(), err error) {
	f, err := os.Open(at[0])
	if err != nil {
		return func() {}, err
	}
	// A file system stays frozen when the process dies: the next one finds the mark, and ends it.
	mark := filepath.Join(s.path(v.ID), frozenFile)
	if err := writeSynced(mark, nil); err != nil {
		return func() {}, errors.Join(err, f.Close())
	}
	if err := unix.IoctlSetInt(int(f.Fd()), fiFreeze, 0); err != nil {
		return func() {}, errors.Join(err, f.Close(), os.Remove(mark))
	}
	return func() {
		_ = unix.IoctlSetInt(int(f.Fd()), fiThaw, 0) // an error says that nothing was frozen
		_ = f.Close()
		_ = os.Remove(mark)
	}, nil
}

// thawAll has the file systems go on that a process froze which was killed.
func (s recordDir) thawAll() error {
	marks, err := filepath.Glob(filepath.Join(s.dir, "*", frozenFile))
	if err != nil {
		return err
	}
	for _, mark := range marks {
		v, err := s.get(filepath.Base(filepath.Dir(mark)))
		if err != nil {
			return err
		}
		if v != nil {
			if err := s.thaw(v); err != nil {
				return err
			}
		}
		if err := os.Remove(mark); err != nil {
			return err
		}
	}
	return nil
}

// thaw has a volume's file system go on, if it is mounted and stands still.
func (s recordDir) thaw(v *record) error {
	at, err := mountsOf(s, v)
	if err != nil || len(at) == 0 {
		return err
	}
	f, err := os.Open(at[0])
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(f.Fd()), fiThaw, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("volume %s stands still: %w", v.ID, err)
	}
	return nil
}

// Numbers of linux/fs.h.
const (
	fiFreeze = 0xc0045877
	fiThaw   = 0xc0045878
)

// CreateSnapshot copies a volume of this node.
func (d *Driver) CreateSnapshot(ctx context.Context,
	r *csipb.CreateSnapshotRequest) (*csipb.CreateSnapshotResponse, error) {
	if r.GetName() == "" || r.GetSourceVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "name and source_volume_id are required")
	}
	id := idOf(r.GetName())
	unlock, err := d.locks.lock(ctx, "snapshot/"+id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	s, err := d.store.snapshots.get(id)
	if err != nil {
		return nil, err
	}
	if s != nil && s.Source != r.GetSourceVolumeId() {
		return nil, status.Errorf(codes.AlreadyExists, "snapshot %s is there, of volume %s", s.Name, s.Source)
	}
	if s != nil {
		return &csipb.CreateSnapshotResponse{Snapshot: snapshotOf(s)}, nil
	}
	if s, err = d.snapshot(ctx, id, r); err != nil {
		return nil, err
	}
	return &csipb.CreateSnapshotResponse{Snapshot: snapshotOf(s)}, nil
}

// snapshot copies a volume as it is now.
func (d *Driver) snapshot(ctx context.Context, id string, r *csipb.CreateSnapshotRequest) (*record, error) {
	unlock, err := d.sources.lock(ctx, "volume/"+r.GetSourceVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()
	v, err := d.volume(r.GetSourceVolumeId())
	if err != nil {
		return nil, err
	}
	s := &record{ID: id, Name: r.GetName(), Size: v.Size, Kind: v.Kind, Block: v.Block, FSType: v.FSType,
		NewFS: v.NewFS, Source: v.ID, Created: time.Now()}
	made, err := d.store.reserveFor(d.store.snapshots, s)
	if err != nil {
		return nil, err
	}
	defer made()
	from, err := volumeSource(d.store.volumes, v)
	if err != nil {
		return nil, err
	}
	defer from.release()
	return s, d.store.snapshots.create(s, func(dir string) error { return d.copy(ctx, from, dir) })
}

// copy copies a volume's data into a directory. It goes on when the caller stops waiting, who asks
// again and finds what was made: a big volume takes longer than the deadline of any call. It ends
// with the driver.
func (d *Driver) copy(ctx context.Context, from source, dir string) error {
	to := filepath.Join(dir, filepath.Base(from.path))
	if from.changes {
		return cloneFile(from.path, to)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(d.running, cancel)()
	return copyData(ctx, from.path, to)
}

func snapshotOf(s *record) *csipb.Snapshot {
	return &csipb.Snapshot{SnapshotId: s.ID, SourceVolumeId: s.Source, SizeBytes: s.Size, ReadyToUse: true,
		CreationTime: timestamppb.New(s.Created)}
}

// DeleteSnapshot removes a snapshot. Volumes made from it keep what they have.
func (d *Driver) DeleteSnapshot(ctx context.Context,
	r *csipb.DeleteSnapshotRequest) (*csipb.DeleteSnapshotResponse, error) {
	id := r.GetSnapshotId()
	if id == "" {
		return nil, status.Error(codes.InvalidArgument, "snapshot_id is missing")
	}
	unlock, err := d.acquireLock(ctx, "snapshot/"+id, "snapshot/"+id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if s, err := d.store.snapshots.get(id); err != nil || s == nil {
		return &csipb.DeleteSnapshotResponse{}, err
	}
	return &csipb.DeleteSnapshotResponse{}, d.store.snapshots.remove(id)
}

// ListSnapshots lists the node's snapshots, of one volume or id if that is asked for.
func (d *Driver) ListSnapshots(_ context.Context, r *csipb.ListSnapshotsRequest) (*csipb.ListSnapshotsResponse, error) {
	all, err := d.store.snapshots.list()
	if err != nil {
		return nil, err
	}
	var chosen []*record
	for _, s := range all {
		if (r.GetSnapshotId() == "" || r.GetSnapshotId() == s.ID) &&
			(r.GetSourceVolumeId() == "" || r.GetSourceVolumeId() == s.Source) {
			chosen = append(chosen, s)
		}
	}
	p, err := page(len(chosen), r.GetStartingToken(), r.GetMaxEntries())
	if err != nil {
		return nil, err
	}
	out := &csipb.ListSnapshotsResponse{NextToken: p.next}
	for _, s := range chosen[p.from:p.to] {
		out.Entries = append(out.Entries, &csipb.ListSnapshotsResponse_Entry{Snapshot: snapshotOf(s)})
	}
	return out, nil
}
