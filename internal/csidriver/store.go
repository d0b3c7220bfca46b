package csidriver

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Kinds of volumes.
const (
	kindDirectory = "directory"
	kindImage     = "image"
)

// record is what is stored of a volume or snapshot, as volume.json beside its data.
type record struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Size    int64     `json:"size"` // bytes
	Kind    string    `json:"kind"`
	Block   bool      `json:"block,omitempty"`   // raw: no file system is ever made
	FSType  string    `json:"fsType,omitempty"`  // of an image that was used
	NewFS   string    `json:"newFS,omitempty"`   // to be made at the first use; empty is the default
	Project uint32    `json:"project,omitempty"` // of a directory whose size a quota enforces
	Source  string    `json:"source,omitempty"`  // snapshot/ID or volume/ID; of a snapshot: the volume's ID
	Created time.Time `json:"created"`
	// Ephemeral volumes go when they are unpublished.
	Ephemeral bool   `json:"ephemeral,omitempty"`
	making    string // the directory in which it is being made
}

// recordDir is a directory of records: volumes or snapshots.
type recordDir struct{ dir string }

// store is all that a driver keeps.
type store struct {
	dir                string
	volumes, snapshots recordDir
	mu                 sync.Mutex             // while sizes are added up; never while data is copied
	reserved           map[string]reservation // by the directory in which a volume is going to be
	quotas             projectQuotas          // nil: directories take what they can
}

// reservation is the size of a volume that is being made: an image, or a directory with a quota.
type reservation struct {
	image   string
	project uint32
	bytes   int64
}

const (
	recordFile   = "volume.json"
	frozenFile   = "frozen" // beside an image whose file system stands still
	hiddenPrefix = ".new-"
)

func openStore(dir string) (*store, error) {
	s := &store{dir: dir, volumes: recordDir{filepath.Join(dir, "volumes")},
		snapshots: recordDir{filepath.Join(dir, "snapshots")}, reserved: map[string]reservation{}}
	for _, one := range []recordDir{s.volumes, s.snapshots} {
		if err := os.MkdirAll(one.dir, 0o750); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// lockDir takes the directory for this process until it ends, or the file is closed.
func (s *store) lockDir() (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another driver runs over %s: %w", s.dir, err), f.Close())
	}
	return f, nil
}

// recover ends what an earlier process was killed in the middle of.
func (s *store) recover() error {
	for _, one := range []recordDir{s.volumes, s.snapshots} {
		entries, err := os.ReadDir(one.dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".") {
				if err := removeAll(filepath.Join(one.dir, e.Name())); err != nil {
					return err
				}
			}
		}
	}
	return s.volumes.thawAll()
}

// removeAll removes a directory in which a program that is being killed may still write.
func removeAll(dir string) (err error) {
	for range 10 {
		if err = os.RemoveAll(dir); !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
	}
	return err
}

var plainID = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,99}$`)

// idOf is the id of what is asked for by a name.
func idOf(name string) string {
	if plainID.MatchString(name) {
		return name
	}
	return fmt.Sprintf("x-%x", sha256.Sum256([]byte(name)))[:42]
}

// hidden is a directory for what is not there yet, or no more. It is another one each time: what a
// killed process began may still be written.
func (s recordDir) hidden(id string) string {
	return filepath.Join(s.dir, hiddenPrefix+id+"-"+rand.Text())
}

func (s recordDir) path(id string) string    { return filepath.Join(s.dir, id) }
func (s recordDir) image(id string) string   { return filepath.Join(s.dir, id, "disk.img") }
func (s recordDir) dataDir(id string) string { return filepath.Join(s.dir, id, "data") }
func (s recordDir) contents(r *record) string { // what is copied for a clone
	if r.Kind == kindImage {
		return s.image(r.ID)
	}
	return s.dataDir(r.ID)
}

// get is the record of an id; nil when there is none.
func (s recordDir) get(id string) (*record, error) {
	if !plainID.MatchString(id) {
		return nil, nil // nothing of ours, and no path
	}
	text, err := os.ReadFile(filepath.Join(s.path(id), recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := &record{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", s.path(id), err)
	}
	return r, nil
}

// list is all records, by id.
func (s recordDir) list() ([]*record, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var out []*record
	for _, e := range entries {
		if r, err := s.get(e.Name()); err != nil {
			return nil, err
		} else if r != nil {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *record) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// put writes a record that is there, whole or not at all.
func (s recordDir) put(r *record) error { return writeRecord(s.path(r.ID), r) }

func writeRecord(dir string, r *record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, recordFile)
	if err := writeSynced(file+".new", text); err != nil {
		return err
	}
	if err := os.Rename(file+".new", file); err != nil {
		return err
	}
	return syncDir(dir)
}

func writeSynced(file string, text []byte) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// create makes a record with its data for which room was reserved: fill makes disk.img or data in
// the directory that it gets. Nothing is there when it fails.
func (s recordDir) create(r *record, fill func(dir string) error) error {
	dir := r.making
	err := os.Mkdir(dir, 0o750)
	if err == nil {
		err = fill(dir)
	}
	if err == nil {
		err = writeRecord(dir, r)
	}
	if err == nil {
		err = os.Rename(dir, s.path(r.ID))
	}
	if err == nil {
		return syncDir(s.dir)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// remove takes a record away, first by name so that it is never half there.
func (s recordDir) remove(id string) error {
	gone := s.hidden(id)
	if err := os.Rename(s.path(id), gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(gone)
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// available is how many bytes can still be reserved: what the disk has free, without what was
// promised to images and is not used yet. The caller holds mu.
func (s *store) available() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(s.volumes.dir, &st); err != nil {
		return 0, err
	}
	free := int64(st.Bavail) * st.Bsize
	for _, one := range []recordDir{s.volumes, s.snapshots} {
		all, err := one.list()
		if err != nil {
			return 0, err
		}
		for _, r := range all {
			if _, being := s.reserved[one.path(r.ID)]; !being {
				rest, err := s.unused(reservation{image: one.image(r.ID), project: r.Project, bytes: r.Size}, r.Kind)
				if err != nil {
					return 0, err
				}
				free -= rest
			}
		}
	}
	for dir, p := range s.reserved {
		if _, err := os.Stat(dir); err == nil { // made, and not said yet
			p.image = filepath.Join(dir, "disk.img")
		}
		kind := kindImage
		if p.project != 0 {
			kind = kindDirectory
		}
		rest, err := s.unused(p, kind)
		if err != nil {
			return 0, err
		}
		free -= rest
	}
	return max(0, free), nil
}

// unused is what a volume can still take of the disk of what it was promised: nothing of a
// directory without a quota, to which nothing was.
func (s *store) unused(p reservation, kind string) (int64, error) {
	switch {
	case kind == kindImage:
		return unused(p.image, p.bytes), nil
	case p.project == 0 || s.quotas == nil:
		return 0, nil
	}
	used, err := s.quotas.used(p.project)
	return max(0, p.bytes-used), err
}

// unused is what an image of so many bytes can still take of the disk.
func unused(image string, bytes int64) int64 {
	if info, err := os.Stat(image); err == nil {
		if sys, ok := info.Sys().(*syscall.Stat_t); ok {
			bytes -= sys.Blocks * 512
		}
	}
	return max(0, bytes)
}

// reserveFor sets the bytes of a volume or snapshot aside that is about to be made and says where
// it is, or refuses; made is called when it is there, or is not going to be.
func (s *store) reserveFor(one recordDir, r *record) (made func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.making = one.hidden(r.ID)
	if err := s.reserve(r.Size); err != nil {
		return func() {}, err
	}
	if r.Kind == kindDirectory && one == s.volumes && s.quotas != nil {
		if r.Project, err = s.chooseProject(r.ID); err != nil {
			return func() {}, err
		}
	}
	if r.Kind == kindDirectory && r.Project == 0 {
		return func() {}, nil
	}
	dir := one.path(r.ID)
	s.reserved[dir] = reservation{image: filepath.Join(r.making, "disk.img"), project: r.Project, bytes: r.Size}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.reserved, dir)
	}, nil
}

// reserve refuses to promise more than there is. The caller holds mu.
func (s *store) reserve(bytes int64) error {
	free, err := s.available()
	if err != nil {
		return err
	}
	if bytes > free {
		return status.Errorf(codes.ResourceExhausted,
			"%d bytes are asked for, the disk of %s has %d that are not promised "+
				"to other volumes", bytes, s.volumes.dir, free)
	}
	return nil
}

// codeOf is the code of an error of the system.
func codeOf(err error) codes.Code {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return codes.ResourceExhausted
	case errors.Is(err, unix.EBUSY):
		return codes.FailedPrecondition
	}
	return codes.Internal
}
