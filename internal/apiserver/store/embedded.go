package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// maxSocketPath is the longest path, in bytes, of a sockaddr_un.
const maxSocketPath = 107

// startEmbedded starts etcd in this process and returns when it is the leader, ctx ends, or it
// fails. Errors are *InUse, *Damaged, or etcd's.
func startEmbedded(ctx context.Context, dir string, o Options) (*Store, error) {
	socket, release, err := socketPath(dir)
	if err != nil {
		return nil, err
	}
	serveEtcdMetrics()
	e, err := launchEtcd(embeddedConfig(dir, socket, o))
	if err != nil {
		release()
		return nil, err
	}
	s := &Store{
		Transport: storagebackend.TransportConfig{ServerList: []string{"unix://" + socket}},
		embedded:  e, release: release,
	}
	elected, stop := context.WithCancel(ctx)
	defer stop()
	if o.Tick == 0 {
		go becomeLeader(elected, e.Server)
	}
	select {
	case <-e.Server.ReadyNotify():
		return s, nil
	case err = <-e.Err():
	case <-e.Server.StopNotify():
		err = errors.New("etcd stopped while starting")
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.Close()
	return nil, fmt.Errorf("store: etcd did not start: %w", err)
}

// embeddedConfig returns the configuration of a single-member etcd that only this process reaches.
func embeddedConfig(dir, socket string, o Options) *embed.Config {
	c := embed.NewConfig()
	c.Name, c.Dir = "gantry", dir
	c.ListenClientUrls = []url.URL{{Scheme: "unix", Path: socket}}
	c.AdvertiseClientUrls = []url.URL{{Scheme: "unix", Host: "localhost"}}
	c.ListenPeerUrls = nil // a unix path here would bind an abstract socket open to all
	c.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "localhost:0"}}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	tick := o.Tick
	if tick == 0 {
		tick = time.Second
	}
	c.TickMs, c.ElectionMs = uint(tick.Milliseconds()), uint(5*tick.Milliseconds())
	c.EnableGRPCGateway = false
	c.WatchProgressNotifyInterval = 30 * time.Second // watch caches request progress when they need it
	// Late commits to the database file are safe: the write-ahead log is synced before a write is
	// acknowledged.
	c.BackendBatchInterval, c.BackendBatchLimit = time.Second, 100
	c.UnsafeNoFsync = o.NoFsync
	// A single member has no slow follower to catch up: keep few raft entries in memory.
	c.SnapshotCount, c.SnapshotCatchUpEntries = 2000, 200
	if c.QuotaBackendBytes = o.Quota; o.Quota == 0 {
		c.QuotaBackendBytes = 8 << 30
	}
	c.MaxRequestBytes = 3 << 20 // the API server's own limit on a request body
	c.BootstrapDefragThresholdMegabytes = 100
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(newEtcdLogger())
	return c
}

// launchEtcd starts etcd. On damaged files etcd panics or exits through its logger; both are
// returned as *Damaged. Other errors are *InUse, or etcd's.
func launchEtcd(c *embed.Config) (e *embed.Etcd, err error) {
	existed := fileExists(filepath.Join(c.Dir, "member"))
	defer func() {
		if r := recover(); r != nil {
			e, err = nil, &Damaged{Dir: c.Dir, Err: fmt.Errorf("%v", r)}
		}
	}()
	switch err := checkReadable(filepath.Join(c.Dir, "member", "snap", "db")); {
	case errors.Is(err, bbolterrors.ErrTimeout):
		return nil, &InUse{Dir: c.Dir}
	case err != nil:
		return nil, &Damaged{Dir: c.Dir, Err: err}
	}
	e, err = embed.StartEtcd(c)
	if err != nil && existed {
		return nil, &Damaged{Dir: c.Dir, Err: err}
	}
	if err != nil {
		return nil, fmt.Errorf("store: etcd cannot start in %s: %w", c.Dir, err)
	}
	return e, nil
}

// socketPath returns the path of etcd's socket in dir, if necessary by way of an open file
// descriptor of dir, where the path itself is too long for a socket. The caller calls release when
// the socket is no longer used.
func socketPath(dir string) (path string, release func(), err error) {
	path = filepath.Join(dir, "etcd.sock")
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return "", nil, fmt.Errorf("store: %w", err)
	}
	return fmt.Sprintf("/proc/self/fd/%d/etcd.sock", f.Fd()), func() { _ = f.Close() }, nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// checkReadable checks the headers and pages of the database file, if there is one: etcd reads it
// in goroutines whose panics cannot be recovered. It returns bbolt's ErrTimeout if another process
// has the file open.
func checkReadable(db string) (err error) {
	if !fileExists(db) {
		return nil
	}
	b, err := bbolt.Open(db, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return fmt.Errorf("database file: %w", err)
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a page that points past the file's end
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("database file: %v", r)
		}
		err = errors.Join(err, b.Close())
	}()
	return b.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, bucket *bbolt.Bucket) error {
			_ = bucket.Stats() // reads every page of it
			return nil
		})
	})
}
