package allocations

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/userns"
)

// file is upstream's name for it.
const file = "userns"

// Running tells which range the runtime's sandbox of a Pod has; false when it has none.
type Running func(ctx context.Context, uid types.UID) (userns.Range, bool, error)

// Manager gives ranges to Pods.
type Manager struct {
	dir     string // of all Pods' directories
	pool    userns.Pool
	running Running
	mu      sync.Mutex
	last    userns.Range // that was given
}

// New returns the Manager of the kubelet whose directory is root.
func New(root string, pool userns.Pool, running Running) *Manager {
	return &Manager{dir: filepath.Join(root, "pods"), pool: pool, running: running}
}

// GetOrCreate returns the Pod's range, a new one when it has none yet. It is on disk before it is
// returned.
func (l *Manager) GetOrCreate(ctx context.Context, uid types.UID) (userns.Range, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, err := l.read(uid); err == nil {
		return r, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return l.repair(ctx, uid, err)
	}
	return l.allocate(ctx, uid)
}

// Allocated lists the ranges on disk by Pod.
func (l *Manager) Allocated() (map[types.UID]userns.Range, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[types.UID]userns.Range{}
	err := l.each(func(uid types.UID, r userns.Range, err error) error {
		out[uid] = r
		return err
	})
	return out, err
}

func (l *Manager) allocate(ctx context.Context, uid types.UID) (userns.Range, error) {
	var taken []userns.Range
	err := l.each(func(other types.UID, r userns.Range, err error) error {
		if err != nil {
			if r, err = l.repair(ctx, other, err); err != nil {
				return err
			}
		}
		taken = append(taken, r)
		return nil
	})
	if err != nil {
		return userns.Range{}, err
	}
	r, err := l.pool.Pick(l.last, taken)
	if err != nil {
		return userns.Range{}, err
	}
	l.last = r
	return r, l.write(uid, r)
}

// each visits the Pods that have a file.
func (l *Manager) each(visit func(types.UID, userns.Range, error) error) error {
	entries, err := os.ReadDir(l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		uid := types.UID(e.Name())
		r, err := l.read(uid)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := visit(uid, r, err); err != nil {
			return err
		}
	}
	return nil
}

// repair writes a damaged file anew: with the ids of the Pod's sandbox, or, when nothing of it
// runs, with ids that are free.
func (l *Manager) repair(ctx context.Context, uid types.UID, cause error) (userns.Range, error) {
	r, runs, err := l.running(ctx, uid)
	if err != nil {
		return userns.Range{}, fmt.Errorf("user namespace of pod %s: %w; the runtime does not tell what it had: %w",
			uid, cause, err)
	}
	klog.FromContext(ctx).Info("The file of a Pod's user namespace is damaged and written anew", "pod", uid,
		"damage", cause, "running", runs)
	if runs {
		return r, l.write(uid, r)
	}
	if err := os.Remove(l.path(uid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return userns.Range{}, err
	}
	return l.allocate(ctx, uid)
}

func (l *Manager) path(uid types.UID) string { return filepath.Join(l.dir, string(uid), file) }

func (l *Manager) read(uid types.UID) (userns.Range, error) {
	raw, err := os.ReadFile(l.path(uid))
	if err != nil {
		return userns.Range{}, err
	}
	return userns.Parse(raw)
}

// write is done when the file survives a loss of power.
func (l *Manager) write(uid types.UID, r userns.Range) error {
	dir := filepath.Join(l.dir, string(uid))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, file+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(userns.Format(r))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), l.path(uid))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("user namespace of pod %s: %w", uid, err), os.Remove(f.Name()))
	}
	return nil
}
