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

// ImportedArchive is what became of an archive of ImagesDir.
type ImportedArchive struct {
	File  string
	Names []string // of the images; empty when Err says why there are none
	Err   error
}

// archiveImporter imports what stands in ImagesDir. It is used by one goroutine at a time.
type archiveImporter struct {
	dir, recordFile string
	load            func(ctx context.Context, path string) ([]string, error)
	onImport        func(ImportedArchive)
	failed          map[string]string // stamps of archives that could not be imported
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

// scan imports the archives (*.tar, *.tar.gz, *.tgz) that are new or changed since they were last
// imported; those that somebody still writes are left for later. A machine without a registry gets
// its images this way. A containerd that is away is an error: scan again when it is back. An
// archive that is broken is told, and tried again when it has changed or at the next start.
func (a *archiveImporter) scan(ctx context.Context) error {
	entries, err := os.ReadDir(a.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("directory of images: %w", err)
	}
	before, after := map[string]string{}, map[string]string{}
	if raw, err := os.ReadFile(a.recordFile); err == nil && json.Unmarshal(raw, &before) != nil {
		before = map[string]string{} // cut off by a crash: import again
	}
	for _, e := range entries {
		path := filepath.Join(a.dir, e.Name())
		if !isArchive(e.Name()) {
			continue
		}
		stamp, ok := fingerprintOf(path)
		switch {
		case !ok: // went meanwhile, or is no file
		case before[e.Name()] == stamp:
			after[e.Name()] = stamp
		case a.failed[e.Name()] == stamp || beingWritten(path):
		default:
			imported, err := a.importOne(ctx, path)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case away(err):
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
			a.onImport(imported) // once it is recorded: who hears of it finds it imported
		}
	}
	if maps.Equal(before, after) {
		return nil
	}
	return a.record(after)
}

// record writes down which archives are imported, by name with their fingerprints.
func (a *archiveImporter) record(imported map[string]string) error {
	raw, err := json.MarshalIndent(imported, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(a.recordFile, raw, 0o600)
}

// importOne imports an archive and returns what became of it. Nothing became of it yet when
// containerd is away (away(err)) or ctx ended.
func (a *archiveImporter) importOne(ctx context.Context, path string) (ImportedArchive, error) {
	names, err := a.load(ctx, path)
	if err != nil && !away(err) && ctx.Err() == nil {
		err = fmt.Errorf("%w; mend the archive or take it out of %s", err, a.dir)
	}
	return ImportedArchive{File: path, Names: names, Err: err}, err
}

func isArchive(name string) bool {
	return !strings.HasPrefix(name, ".") && (strings.HasSuffix(name, ".tar") || strings.HasSuffix(name, ".tar.gz") ||
		strings.HasSuffix(name, ".tgz"))
}

// fingerprintOf changes with a file's content; ok is false for what is no regular file. Links are
// followed.
func fingerprintOf(path string) (stamp string, ok bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	return fmt.Sprintf("%d bytes, %s", info.Size(), info.ModTime().UTC().Format("2006-01-02T15:04:05.000000000Z")), true
}

// beingWritten tells whether somebody has the file open for writing: the kernel refuses a read
// lease then. Where there are no leases (other file systems) it is false.
func beingWritten(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close() // gives the lease back too
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	return errors.Is(err, unix.EAGAIN)
}

// retryScan is when a directory that could not be read is looked at again.
const retryScan = 10 * time.Second

// follow scans whenever something in the directory is complete, until ctx ends. It sees files by
// inotify when they are closed, moved in or linked; the directory itself may come and go. fault is
// told of what keeps it from looking.
func (a *archiveImporter) follow(ctx context.Context, fault func(error)) error {
	w, err := newDirWatch(a.dir)
	if err != nil {
		return fmt.Errorf("watch the directory of images %s: %w", a.dir, err)
	}
	defer w.close()
	stop := context.AfterFunc(ctx, w.close)
	defer stop()
	rescan := time.NewTimer(0) // what came before the watch stood
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
		}
	}
}

// FollowImages imports archives that are put into ImagesDir from now on, until ctx ends; OnImport
// is told of each. fault is told of what keeps it from looking. It runs once at a time.
func (c *Child) FollowImages(ctx context.Context, fault func(error)) error {
	return c.images.follow(ctx, fault)
}
