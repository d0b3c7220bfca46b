package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func put(t *testing.T, s *Store, k, v string) {
	t.Helper()
	c, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Put(t.Context(), k, v); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, s *Store, k string) (value string, revision int64) {
	t.Helper()
	c, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	res, err := c.Get(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Kvs) > 0 {
		value = string(res.Kvs[0].Value)
	}
	return value, res.Header.Revision
}

// A snapshot taken from a running store comes back, with revisions far ahead of all that were; what
// was there is kept; a running store is refused.
func TestSnapshotComesBack(t *testing.T) {
	dir, file := filepath.Join(t.TempDir(), "etcd"), filepath.Join(t.TempDir(), "snap.db")
	s := openStore(t, dir)
	put(t, s, "k", "old")
	running, err := Attach(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if running.Embedded() {
		t.Error("a store in use was opened a second time")
	}
	if err := running.Save(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if err := running.Save(t.Context(), file); err == nil {
		t.Error("a snapshot replaced a file")
	}
	running.Close()
	put(t, s, "k", "new")
	_, last := get(t, s, "k")
	r := RestoreOptions{Snapshot: file, Dir: dir, Now: time.Unix(0, 0)}
	if _, err := Restore(r); !isInUse(err) {
		t.Errorf("restore into a running store: %v", err)
	}
	s.Close()
	backup, err := Restore(r)
	if err != nil {
		t.Fatal(err)
	}
	if !fileExists(filepath.Join(backup, "snap", "db")) {
		t.Errorf("the former store is not in %q", backup)
	}
	value, revision := get(t, openStore(t, dir), "k")
	if value != "old" || revision < last+RevisionBump/2 {
		t.Errorf("after the restore: %q at revision %d; the last one was %d", value, revision, last)
	}
}

func isInUse(err error) bool { _, ok := errors.AsType[*InUse](err); return ok }

// A snapshot with a wrong byte, or cut short, is refused, and the store stays as it was.
func TestBadSnapshotIsRefused(t *testing.T) {
	dir, file := filepath.Join(t.TempDir(), "etcd"), filepath.Join(t.TempDir(), "snap.db")
	s := openStore(t, dir)
	put(t, s, "k", "value")
	if err := s.Save(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	s.Close()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	st, err := Inspect(file)
	if err != nil || st.Keys != 1 || st.Size == 0 || st.Revision != 2 {
		t.Errorf("status: got %+v, %v, want no error and Keys 1 and Size other than 0 and Revision 2", st, err)
	}
	flipped := append([]byte{}, raw...)
	flipped[len(raw)/2] ^= 1
	for name, bytes := range map[string][]byte{"flipped": flipped, "cut": raw[:len(raw)/2], "empty": {},
		"text": []byte("hello")} {
		if err := os.WriteFile(file, bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Restore(RestoreOptions{Snapshot: file, Dir: dir, Now: time.Now()})
		if e, ok := errors.AsType[*BadSnapshot](err); !ok || !strings.Contains(e.Error(), file) {
			t.Errorf("%s: got %v, want found true and e with %v", name, err, file)
		}
	}
	if v, _ := get(t, openStore(t, dir), "k"); v != "value" {
		t.Errorf("the store was changed: %q, want value", v)
	}
}

// Compaction forgets history, defragmentation gives the space back; a store at its end refuses
// writes and says so; compaction and defragmentation repair it.
func TestFullStoreIsRepaired(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	s, err := Open(t.Context(), Options{Dir: dir, NoFsync: true, Tick: 10 * time.Millisecond, Quota: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	c, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	big := strings.Repeat("x", 200<<10)
	for range 100 {
		if _, err = c.Put(t.Context(), "big", big); err != nil {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "database space exceeded") {
		t.Fatalf("the store never was full: %v", err)
	}
	if err := s.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "gantry etcd defrag") {
		t.Errorf("health of a full store: %v", err)
	}
	members, err := s.Members(t.Context())
	if err != nil || len(members) != 1 || len(members[0].Alarms) != 1 || members[0].Alarms[0] != "NOSPACE" ||
		members[0].Quota != 2<<20 {
		t.Errorf("members: %+v, %v", members, err)
	}
	revision, err := s.Compact(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), "big", clientv3.WithRev(revision-1)); err == nil {
		t.Error("history before the compaction is still there")
	}
	if err := s.Defragment(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(t.Context(), "small", "v"); err != nil {
		t.Errorf("after compaction and defragmentation: %v, want no error", err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("after compaction and defragmentation: %v, want no error", err)
	}
}

// Maintenance never makes a store, and works on the files when no process runs.
func TestMaintenanceNeverMakesAStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	if _, err := Attach(t.Context(), Options{Dir: dir}); !isMissing(err) || fileExists(dir) {
		t.Errorf("got %v, want *Missing", err)
	}
	s := openStore(t, dir)
	put(t, s, "k", "v")
	s.Close()
	s, err := Attach(t.Context(), Options{Dir: dir, NoFsync: true, Tick: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if v, _ := get(t, s, "k"); v != "v" {
		t.Errorf("got %q, want v", v)
	}
}

func isMissing(err error) bool { _, ok := errors.AsType[*Missing](err); return ok }
