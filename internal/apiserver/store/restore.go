package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
)

// RevisionBump is added to the revision of a restored store, so that no client that saw revisions
// after the snapshot takes an old state for a newer one. etcd recommends 1e9 for Kubernetes.
const RevisionBump = 1_000_000_000

// BadSnapshot is the error for a file that is not a complete snapshot.
type BadSnapshot struct {
	Path string
	Err  error
}

func (e *BadSnapshot) Error() string {
	return fmt.Sprintf("%s is not a sound snapshot (%v): take another one; a copied database file, which has no "+
		"checksum, needs --skip-hash-check", e.Path, e.Err)
}

// Unwrap returns the error of the check.
func (e *BadSnapshot) Unwrap() error { return e.Err }

// Snapshot describes a snapshot file. Size is in bytes.
type Snapshot struct {
	Hash     string `json:"hash"`
	Revision int64  `json:"revision"`
	Keys     int    `json:"keys"`
	Size     int64  `json:"size"`
	Version  string `json:"version"` // of the etcd that wrote it
}

// Inspect checks a snapshot file and describes it. Errors are *BadSnapshot or of the file system.
func Inspect(path string) (out Snapshot, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &BadSnapshot{path, fmt.Errorf("%v", r)}
		}
	}()
	if _, err := os.Stat(path); err != nil {
		return out, fmt.Errorf("snapshot: %w", err)
	}
	if err := checkReadable(path); err != nil {
		return out, &BadSnapshot{path, err}
	}
	st, err := snapshot.NewV3(newEtcdLogger()).Status(path)
	if err != nil {
		return out, &BadSnapshot{path, err}
	}
	return Snapshot{Hash: fmt.Sprintf("%08x", st.Hash), Revision: st.Revision, Keys: st.TotalKey, Size: st.TotalSize,
		Version: st.Version}, nil
}

// RestoreOptions are the arguments of Restore.
type RestoreOptions struct {
	Snapshot      string
	Dir           string // of the embedded etcd
	SkipHashCheck bool   // the file is a copied database, which has no checksum
	Now           time.Time
}

// Restore replaces the state of an embedded etcd that does not run by a snapshot. The previous
// state is kept beside it and its path returned, "" if there was none. On an error nothing has
// changed. Errors are *InUse, *BadSnapshot or of the file system.
func Restore(r RestoreOptions) (backup string, err error) {
	dir, err := filepath.Abs(r.Dir)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(r.Snapshot); err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("restore: %w", err)
	}
	unlock, err := lockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	fresh := filepath.Join(dir, "restoring")
	if err := os.RemoveAll(fresh); err != nil { // of a restore that was interrupted
		return "", fmt.Errorf("restore: %w", err)
	}
	defer os.RemoveAll(fresh)
	if err := unpackSnapshot(r, fresh); err != nil {
		return "", &BadSnapshot{r.Snapshot, err}
	}
	member := filepath.Join(dir, "member")
	if fileExists(member) {
		backup = filepath.Join(dir, "before-restore-"+r.Now.UTC().Format("20060102T150405Z"))
		if err := os.Rename(member, backup); err != nil {
			return "", fmt.Errorf("restore: set the present store aside: %w", err)
		}
	}
	if err := os.Rename(filepath.Join(fresh, "member"), member); err != nil {
		if backup != "" {
			err = errors.Join(err, os.Rename(backup, member))
		}
		return "", fmt.Errorf("restore: %w", err)
	}
	return backup, syncDir(dir)
}

// unpackSnapshot writes the snapshot as an etcd data directory; etcd's panics are returned as
// errors.
func unpackSnapshot(r RestoreOptions, target string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	c := embeddedConfig(target, "", Options{})
	return snapshot.NewV3(newEtcdLogger()).Restore(snapshot.RestoreConfig{
		SnapshotPath: r.Snapshot, Name: c.Name, OutputDataDir: target,
		PeerURLs: []string{c.AdvertisePeerUrls[0].String()}, InitialCluster: c.InitialCluster,
		InitialClusterToken: c.InitialClusterToken, SkipHashCheck: r.SkipHashCheck, RevisionBump: RevisionBump,
		MarkCompacted: true,
	})
}

// syncDir makes a rename in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
