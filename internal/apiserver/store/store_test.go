package store

import (
	"context"
	"errors"
	"expvar"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/raft/v3"
)

func openStore(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Dir: dir, NoFsync: true, Tick: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// What was written is there again; nobody else may look into the directory or reach the socket.
func TestEmbeddedStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	s := openStore(t, dir)
	c, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", info.Mode(), err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	c.Close()
	s.Close()
	s.Close() // a second time, without effect
	c, err = openStore(t, dir).Client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	res, err := c.Get(t.Context(), "k")
	if err != nil || len(res.Kvs) != 1 || string(res.Kvs[0].Value) != "v" {
		t.Errorf("after a restart: %v, %v", res, err)
	}
}

// The only member leads at once, first and after a restart with a long log, and is not asked before
// it has applied what it finds there.
func TestSingleMemberLeadsAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	for round := range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		s, err := Open(ctx, Options{Dir: dir, NoFsync: true})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if status, ok := expvar.Get("raft.status").(expvar.Func).Value().(raft.Status); !ok ||
			status.Lead != status.ID {
			t.Errorf("start %d: %+v", round, status)
		}
		c, err := s.Client()
		if err != nil {
			t.Fatal(err)
		}
		for n := range 500 {
			if _, err := c.Put(t.Context(), "k", strconv.Itoa(n)); err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
		s.Close()
	}
}

// A directory whose socket path is longer than the kernel allows works as well.
func TestLongPath(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), strings.Repeat("long-", 30)))
	other, err := Open(t.Context(), Options{Servers: s.Transport.ServerList})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if other.Embedded() {
		t.Error("named servers were not taken as external")
	}
}

func TestUnreachableServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := Open(ctx, Options{Servers: []string{"http://127.0.0.1:1"}})
	if e, ok := errors.AsType[*Unreachable](err); !ok || !strings.Contains(e.Error(),
		"http://127.0.0.1:1 does not answer") {
		t.Errorf("got %v, want *Unreachable", err)
	}
}

func TestDirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	openStore(t, dir)
	_, err := Open(t.Context(), Options{Dir: dir})
	if e, ok := errors.AsType[*InUse](err); !ok || e.Dir != dir {
		t.Errorf("got %v, want *InUse of %s", err, dir)
	}
}

// A store whose alarm says corrupt refuses writes, and is not healthy, with the remedy in the text.
func TestCorruptStoreSaysSo(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "etcd"))
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	alarm := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_CORRUPT,
		MemberID: uint64(s.embedded.Server.MemberID())}
	if _, err := s.embedded.Server.Alarm(t.Context(), alarm); err != nil {
		t.Fatal(err)
	}
	_, put := s.shared.client.KV.Put(t.Context(), "k", "v")
	_, txn := s.shared.client.KV.Txn(t.Context()).Then(clientv3.OpPut("k", "v")).Commit()
	for what, err := range map[string]error{"health": s.Ping(t.Context()), "put": put, "transaction": txn} {
		if err == nil || !strings.Contains(err.Error(), "corrupt") || !strings.Contains(err.Error(),
			"gantry etcd snapshot restore") {
			t.Errorf("%s: %v, want the remedy named", what, err)
		}
	}
}
