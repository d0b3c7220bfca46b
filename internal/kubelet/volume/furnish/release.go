package furnish

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/tidy"
)

const (
	podsDir     = "pods"
	volumesDir  = "volumes"
	subpathsDir = "volume-subpaths"
)

// Release takes the Pod's volumes away, those of Pods of an earlier kubelet as well, and removes the Pod's directory. It can be repeated; what could not be undone is in the
// error and is tried again by the next call.
func (f *Furnisher) Release(ctx context.Context, uid types.UID) error {
	dir := f.podDir(uid)
	if filepath.Dir(dir) != filepath.Join(f.d.Root, podsDir) {
		return fmt.Errorf("%q is no Pod uid", uid)
	}
	f.forget(uid)
	if err := tidy.Remove(f.d.Mounts, filepath.Join(dir, subpathsDir)); err != nil {
		return fmt.Errorf("release pod %s: %w", uid, err)
	}
	have, err := list(dir)
	if err != nil {
		return fmt.Errorf("release pod %s: %w", uid, err)
	}
	var failed []error
	for _, step := range volume.Plan(nil, have, nil) {
		failed = append(failed, f.tearDown(ctx, filepath.Join(dir, volumesDir, step.Plugin, step.Name), step.Plugin))
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("release pod %s: %w", uid, err)
	}
	if err := tidy.Remove(f.d.Mounts, dir); err != nil {
		return fmt.Errorf("release pod %s: %w", uid, err)
	}
	return nil
}

// Orphans releases the directories of Pods that known does not have, and returns the uids of those released.
func (f *Furnisher) Orphans(ctx context.Context, known func(types.UID) bool) ([]types.UID, error) {
	entries, err := os.ReadDir(filepath.Join(f.d.Root, podsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var gone []types.UID
	var failed []error
	for _, e := range entries {
		uid := types.UID(e.Name())
		if !e.IsDir() || known(uid) {
			continue
		}
		if err := f.Release(ctx, uid); err != nil {
			failed = append(failed, err)
			continue
		}
		gone = append(gone, uid)
	}
	return gone, errors.Join(failed...)
}

func (f *Furnisher) tearDown(ctx context.Context, dir, plugin string) error {
	for _, t := range f.d.Types {
		if t.Dir() == plugin && plugin != "" {
			return t.TearDown(ctx, dir)
		}
	}
	return fmt.Errorf("%s: no volume type of this node made it; remove it by hand", dir)
}

func (f *Furnisher) forget(uid types.UID) {
	f.mu.Lock()
	s := f.pods[uid]
	delete(f.pods, uid)
	f.mu.Unlock()
	if s != nil {
		s.mu.Lock()
		if s.again != nil {
			s.again.Stop()
		}
		s.mu.Unlock()
	}
	f.d.Objects.Drop(uid)
}

func (f *Furnisher) podDir(uid types.UID) string {
	return filepath.Join(f.d.Root, podsDir, string(uid))
}
