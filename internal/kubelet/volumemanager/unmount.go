package volumemanager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/volumedir"
)

const (
	podsDir     = "pods"
	volumesDir  = "volumes"
	pluginsDir  = "plugins"
	subpathsDir = "volume-subpaths"
)

// UnmountVolumes takes the Pod's volumes away, those of Pods of an earlier kubelet as well, and
// removes the Pod's directory. It can be repeated; what could not be undone is in the error and is
// tried again by the next call.
func (f *Manager) UnmountVolumes(ctx context.Context, uid types.UID) error {
	dir := f.podDir(uid)
	if filepath.Dir(dir) != filepath.Join(f.d.Root, podsDir) {
		return fmt.Errorf("%q is no Pod uid", uid)
	}
	ref, unlock, err := f.takeVolumes(ctx, uid)
	if err != nil {
		return fmt.Errorf("release pod %s: %w", uid, err)
	}
	done := make(chan error, 1)
	go func() { // as in reconcile
		defer unlock()
		done <- f.withHangReport(ref, slowStep{"removal of the Pod's volumes", dir, f.driversOf(uid)},
			func() error { return f.release(ctx, ref, uid) })
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("release pod %s: %w", uid, ctx.Err())
	}
}

// driversOf names the CSI drivers of the Pod's volumes that are stored.
func (f *Manager) driversOf(uid types.UID) string {
	have, err := f.volumesOnDisk(uid)
	if err != nil {
		return "" // release says so
	}
	var out []string
	for _, d := range have {
		data, err := readVolumeData(f.metaDir(uid, d.Plugin, d.Name))
		if driver := csiDriver(data); err == nil && driver != "" && !slices.Contains(out, driver) {
			out = append(out, driver)
		}
	}
	return strings.Join(out, " or ")
}

func (f *Manager) release(ctx context.Context, ref journal.Ref, uid types.UID) error {
	dir := f.podDir(uid)
	if err := volumedir.Remove(f.d.Mounts, filepath.Join(dir, subpathsDir)); err != nil {
		return fmt.Errorf("release pod %s: %w", uid, err)
	}
	have, err := f.volumesOnDisk(uid)
	if err != nil {
		return fmt.Errorf("release pod %s: %w", uid, err)
	}
	var failed []error
	for _, step := range volume.Plan(nil, have, nil) {
		failed = append(failed,
			f.tearDown(ctx, ref, uid, step.Dir))
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("release pod %s: %w", uid, err)
	}
	if err := volumedir.Remove(f.d.Mounts, dir); err != nil {
		return fmt.Errorf("release pod %s: %w", uid, err)
	}
	return nil
}

// CleanupOrphans releases the directories and volumes of Pods that known does not have (upstream:
// cleanupOrphanedPodDirs), and returns the uids of those released; then it unstages the volumes
// that no Pod uses, and unmaps raw ones that are mapped for no Pod. They are released side by side:
// one that hangs is in the error, goes on by itself, and keeps no other.
func (f *Manager) CleanupOrphans(ctx context.Context, known func(types.UID) bool) ([]types.UID, error) {
	entries, err := os.ReadDir(filepath.Join(f.d.Root, podsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, orphanTimeout)
	defer cancel()
	var mu sync.Mutex
	var released []types.UID
	var failed []error
	var all sync.WaitGroup
	places := make(chan struct{}, maxParallelOrphans)
	for _, e := range entries {
		uid := types.UID(e.Name())
		if !e.IsDir() || known(uid) {
			continue
		}
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			err := f.UnmountVolumes(ctx, uid)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, err)
				return
			}
			released = append(released, uid)
		})
	}
	all.Wait()
	failed = append(failed, f.unmapOrphans(known), f.cleanupDevices(ctx))
	slices.Sort(released)
	return released, errors.Join(failed...)
}

const (
	orphanTimeout      = time.Minute // for all that a sweep finds
	maxParallelOrphans = 16
)

// tearDown takes one volume of a Pod away by what was stored of it, and then what was stored. A
// volume of a kubelet that stored nothing is known by its directory.
func (f *Manager) tearDown(ctx context.Context, ref journal.Ref, uid types.UID, d volume.DirOnDisk) error {
	a := volume.UnmounterArgs{Dir: f.dir(uid, d.Plugin, d.Name), MetaDir: f.metaDir(uid, d.Plugin, d.Name)}
	t := f.d.Plugins.FindPluginByDir(d.Plugin)
	if t == nil {
		return fmt.Errorf("%s: no volume type of this node made it; remove it by hand", a.Dir)
	}
	var err error
	if a.Data, err = readVolumeData(a.MetaDir); err != nil {
		if _, staged := t.(volume.DeviceMountableVolumePlugin); staged && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		a.Data = volume.VolumeData{PluginName: t.Name(), VolumeName: d.Name, SpecVolID: d.Name}
	}
	operation := volume.OperationUnmount
	if a.Data.Block {
		operation = volume.OperationUnmap
	}
	end := f.removal(operation, a.Data, f.isMigrated(a.Data))
	err = f.unmount(ctx, uid, t, a)
	end(err)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(a.MetaDir); err != nil {
		return err
	}
	return f.releaseDevice(ctx, ref, podVolume{uid, a.Data.VolumeName}, a.Data)
}

// unmount takes a volume away from a Pod.
func (f *Manager) unmount(ctx context.Context, uid types.UID, t volume.Plugin, a volume.UnmounterArgs) error {
	if b, ok := t.(volume.BlockVolumePlugin); ok && a.Data.Block {
		if err := f.unmapDevice(b, uid, a.Data.SpecVolID); err != nil {
			return err
		}
	}
	return t.TearDown(ctx, a)
}

// takeVolumes drops what is known of the Pod, once nothing is being done for it any more. The
// caller unlocks when it is done with the Pod.
func (f *Manager) takeVolumes(ctx context.Context, uid types.UID) (journal.Ref, func(), error) {
	f.mu.Lock()
	s := f.pods[uid]
	if s == nil { // of an earlier kubelet
		s = &podVolumes{ref: journal.Ref{UID: string(uid)}, locked: make(chan struct{}, 1),
			wanted: map[string]time.Time{}}
		f.pods[uid] = s
	}
	f.mu.Unlock()
	if err := s.lock(ctx); err != nil {
		return s.ref, nil, err
	}
	if s.refreshTimer != nil {
		s.refreshTimer.Stop()
		s.refreshTimer = nil
	}
	f.d.Objects.UnregisterPod(uid)
	s.ready, s.reported, s.wanted = map[string]mountedVolume{}, map[string]string{}, map[string]time.Time{}
	f.publish(s)
	f.mu.Lock()
	s.attempted = nil
	f.mu.Unlock()
	return s.ref, func() {
		f.mu.Lock()
		if f.pods[uid] == s {
			delete(f.pods, uid)
		}
		f.mu.Unlock()
		s.unlock()
	}, nil
}

func (f *Manager) podDir(uid types.UID) string {
	return filepath.Join(f.d.Root, podsDir, string(uid))
}
