package rotation

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/klog/v2"
)

// link names a container's log in the directory of links; true when nothing is left to do.
func (k *Manager) link(ctx context.Context, c runningContainer, path string) bool {
	if k.d.Links == "" {
		return true
	}
	err := os.Symlink(path, filepath.Join(k.d.Links, linkName(c.pod, c.namespace, c.name, c.id)))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		klog.FromContext(ctx).Error(err, "Failed to create the link to a container's log",
			"pod", klog.KRef(c.namespace, c.pod), "containerName", c.name)
		return false
	}
	return true
}

// unlink removes links that lead to logs of ours that are gone; those of other runtimes are not
// touched.
func (k *Manager) unlink(ctx context.Context) {
	if k.d.Links == "" {
		return
	}
	entries, err := os.ReadDir(k.d.Links)
	if err != nil {
		return
	}
	for _, e := range entries {
		link := filepath.Join(k.d.Links, e.Name())
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, strings.TrimSuffix(k.d.Dir, "/")+"/") {
			continue
		}
		if _, err := os.Stat(target); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if k.isRunningLog(target) {
			continue
		}
		if err := os.Remove(link); err != nil {
			klog.FromContext(ctx).Error(err, "Failed to remove the link to a container's log that is gone",
				"link", link)
		}
	}
}

// isRunningLog tells whether a running container writes to path: its log may be missing for a
// moment.
func (k *Manager) isRunningLog(path string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.logs {
		if s.path == path {
			return true
		}
	}
	return false
}
