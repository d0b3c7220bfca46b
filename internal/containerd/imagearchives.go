package containerd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ImportedArchive is the result of importing an archive of ImagesDir.
type ImportedArchive struct {
	File  string
	Names []string // of the images; empty if Err is set
	Err   error
}

// archiveImporter imports the archives of ImagesDir. It is not safe for concurrent use.
type archiveImporter struct {
	dir, recordFile string
	load            func(ctx context.Context, path string) ([]string, error)
	onImport        func(ImportedArchive)
	failed          map[string]string // fingerprints of archives whose import failed
	left            bool              // the last scan found archives that were being written
}

func (c *Child) archives() *archiveImporter {
	return &archiveImporter{dir: c.cfg.ImagesDir, recordFile: filepath.Join(c.cfg.root(), "imported.json"),
		load: c.ImportImage, onImport: c.cfg.notifyImport, failed: map[string]string{}}
}

func (c Config) notifyImport(i ImportedArchive) {
	if c.OnImport != nil {
		c.OnImport(i)
	}
}

// scan imports archives (*.tar, *.tar.gz, *.tgz) that are new or changed since their last import;
// those still open for writing are left for later. It returns an error if containerd is away; the
// caller scans again when it is back. A broken archive is reported to onImport, and retried when it
// changes or at the next start.
func (a *archiveImporter) scan(ctx context.Context) error {
	entries, err := os.ReadDir(a.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("directory of images: %w", err)
	}
	a.left = false
	before, after := map[string]string{}, map[string]string{}
	if raw, err := os.ReadFile(a.recordFile); err == nil && json.Unmarshal(raw, &before) != nil {
		before = map[string]string{} // truncated by a crash: import again
	}
	for _, e := range entries {
		path := filepath.Join(a.dir, e.Name())
		if !isArchive(e.Name()) {
			continue
		}
		stamp, ok := fingerprintOf(path)
		switch {
		case !ok: // it is gone, or not a file
		case before[e.Name()] == stamp:
			after[e.Name()] = stamp
		case a.failed[e.Name()] == stamp:
		case beingWritten(path):
			a.left = true
		default:
			imported, err := a.importOne(ctx, path)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case isUnavailable(err):
				return fmt.Errorf("directory of images: %w", err)
			case err == nil:
				after[e.Name()] = stamp
				maps.Copy(before, after)
				if err := a.record(before); err != nil {
					return err
				}
			default:
				a.failed[e.Name()] = stamp
			}
			a.onImport(imported) // after it is recorded, so that a callback finds it imported
		}
	}
	if maps.Equal(before, after) {
		return nil
	}
	return a.record(after)
}

// record stores the fingerprints of imported archives by name.
func (a *archiveImporter) record(imported map[string]string) error {
	raw, err := json.MarshalIndent(imported, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(a.recordFile, raw, 0o600)
}

// importOne imports an archive. Its error is set only if containerd is away (isUnavailable(err)) or
// ctx has ended, so that there is no result yet.
func (a *archiveImporter) importOne(ctx context.Context, path string) (ImportedArchive, error) {
	names, err := a.load(ctx, path)
	if err != nil && !isUnavailable(err) && ctx.Err() == nil {
		err = fmt.Errorf("%w; mend the archive or take it out of %s", err, a.dir)
	}
	return ImportedArchive{File: path, Names: names, Err: err}, err
}

func isArchive(name string) bool {
	return !strings.HasPrefix(name, ".") && (strings.HasSuffix(name, ".tar") || strings.HasSuffix(name, ".tar.gz") ||
		strings.HasSuffix(name, ".tgz"))
}

// fingerprintOf returns a value that changes with the file's content; ok is false if it is not a
// regular file. Symbolic links are followed.
func fingerprintOf(path string) (stamp string, ok bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	return fmt.Sprintf("%d bytes, %s", info.Size(), info.ModTime().UTC().Format("2006-01-02T15:04:05.000000000Z")), true
}

// beingWritten reports whether a process has the file open for writing: the kernel then refuses a
// read lease. On file systems without leases it returns false.
func beingWritten(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close() // releases the lease too
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	return errors.Is(err, unix.EAGAIN)
}

// retryScan is when a directory that could not be read is scanned again.
const retryScan = 10 * time.Second

// closedScan is when archives that were being written are looked at again: the kernel reports the
// close of a file before it takes the writer off, so that the scan which follows may come too
// early.
const closedScan = time.Second

// follow scans whenever a file in the directory is complete, until ctx ends. inotify reports files
// when they are closed, moved in or linked; the directory may be removed and created again. fault
// is called with errors that prevent scanning.
func (a *archiveImporter) follow(ctx context.Context, fault func(error)) error {
	w, err := newDirWatch(a.dir)
	if err != nil {
		return fmt.Errorf("watch the directory of images %s: %w", a.dir, err)
	}
	defer w.close()
	stop := context.AfterFunc(ctx, w.close)
	defer stop()
	rescan := time.NewTimer(0) // for files from before the watch
	defer rescan.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err, ok := <-w.changed:
			if !ok {
				return nil
			}
			if err != nil && ctx.Err() == nil {
				return fmt.Errorf("watch the directory of images %s: %w", a.dir, err)
			}
		case <-rescan.C:
		}
		if err := a.scan(ctx); err != nil && ctx.Err() == nil {
			fault(err)
			rescan.Reset(retryScan)
		} else if a.left {
			rescan.Reset(closedScan)
		}
	}
}

// FollowImages imports archives that are added to ImagesDir, until ctx ends; OnImport is called for
// each, fault with errors that prevent scanning. Only one call at a time.
func (c *Child) FollowImages(ctx context.Context, fault func(error)) error {
	return c.images.follow(ctx, fault)
}
