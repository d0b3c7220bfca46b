// Package atomicwriter writes a set of files so that readers see all of the old or all of the new.
//
// The files lie in a directory named by the time; the link ..data points to it and is replaced by
// one rename; the names readers use are links through ..data.
//
// In: a volume's directory, its Payload. Out: the files. After a crash at any point the next Write
// repairs what is there.
package atomicwriter

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

const (
	data            = "..data"
	dataTmp         = "..data_tmp"
	timestampFormat = "..2006_01_02_15_04_05."
)

// Write makes dir, which must exist, hold exactly the payload. finish is called with the directory
// of the new files before anybody sees them. changed is false when the files were there already.
// Names beginning with two dots belong to Write.
func Write(dir string, p volume.Payload, finish func(dir string) error) (changed bool, err error) {
	if err := p.Check(); err != nil {
		return false, err
	}
	current, err := os.Readlink(filepath.Join(dir, data))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if current == "" || filepath.Base(current) != current || !isCurrent(filepath.Join(dir, current), p) {
		if current, err = replace(dir, p, finish); err != nil {
			return false, err
		}
		changed = true
	}
	return changed, errors.Join(link(dir, p), sweep(dir, p, current))
}

// replace writes the files into a directory of their own and points ..data to it.
func replace(dir string, p volume.Payload, finish func(string) error) (name string, err error) {
	fresh, err := os.MkdirTemp(dir, time.Now().UTC().Format(timestampFormat))
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(fresh))
		}
	}()
	if err := os.Chmod(fresh, 0o755); err != nil {
		return "", err
	}
	for name, f := range p {
		if err := create(filepath.Join(fresh, name), f); err != nil {
			return "", err
		}
	}
	if finish != nil {
		if err := finish(fresh); err != nil {
			return "", err
		}
	}
	tmp := filepath.Join(dir, dataTmp)
	if err := os.RemoveAll(tmp); err != nil {
		return "", err
	}
	if err := os.Symlink(filepath.Base(fresh), tmp); err != nil {
		return "", err
	}
	return filepath.Base(fresh), os.Rename(tmp, filepath.Join(dir, data))
}

func create(path string, f volume.File) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, f.Data, 0o600); err != nil {
		return err
	}
	if f.User != nil {
		if err := os.Chown(path, int(*f.User), -1); err != nil {
			return err
		}
	}
	return os.Chmod(path, fs.FileMode(f.Mode)&fs.ModePerm) // past the umask
}

// shared is what fsGroup adds to the files of a read-only volume.
const shared fs.FileMode = 0o440

// isCurrent compares names, contents and permissions, which fsGroup may have added to.
func isCurrent(dir string, p volume.Payload) bool {
	n := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		want, ok := p[name]
		info, err := e.Info()
		mode := fs.FileMode(want.Mode).Perm()
		if err != nil || !ok || info.Mode().Perm() != mode && info.Mode().Perm() != mode|shared {
			return errors.Join(err, fs.ErrExist)
		}
		have, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(have, want.Data) {
			return errors.Join(err, fs.ErrExist)
		}
		n++
		return nil
	})
	return err == nil && n == len(p)
}

// link makes the names readers use: for each first element of a path a link into ..data.
func link(dir string, p volume.Payload) error {
	for top := range topLevelNames(p) {
		path, to := filepath.Join(dir, top), filepath.Join(data, top)
		if have, err := os.Readlink(path); err == nil && have == to {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		if err := os.Symlink(to, path); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes links to files that are no more, directories of older writes, and what a crash
// left.
func sweep(dir string, p volume.Payload, current string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	keep := topLevelNames(p)
	for _, e := range entries {
		name := e.Name()
		switch {
		case name == data, name == current, keep[name]:
			continue
		case !strings.HasPrefix(name, ".."):
			if to, err := os.Readlink(filepath.Join(dir, name)); err != nil || !strings.HasPrefix(to, data+"/") {
				continue // not made by us
			}
		}
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove what is left of an older write: %w", err)
		}
	}
	return nil
}

func topLevelNames(p volume.Payload) map[string]bool {
	m := map[string]bool{}
	for name := range p {
		top, _, _ := strings.Cut(name, "/")
		m[top] = true
	}
	return m
}
