package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"go.etcd.io/etcd/client/pkg/v3/transport"
)

// Prefix is the root of all keys, upstream's default.
const Prefix = "/registry"

// compaction is how long history is kept for watches and paged lists: upstream's default.
const compaction = 5 * time.Minute

// Options select and tune the store.
type Options struct {
	Servers []string // URLs of an external etcd; empty embeds one
	Dir     string   // data directory of the embedded etcd; created if missing, mode 0700
	// CAFile, CertFile and KeyFile are the TLS client files for external servers.
	CAFile, CertFile, KeyFile string
	// NoFsync makes the embedded etcd skip fsync: a power cut loses acknowledged writes. For tests.
	NoFsync bool
	// Tick is the raft tick of the embedded etcd, whose only member elects itself after 1 to 5
	// ticks. 0 means one second with the member made leader at once (becomeLeader), which works
	// only in a process with one store.
	Tick time.Duration
	// Quota is the size of the embedded etcd's database, in bytes, at which writes are refused. 0
	// means 8 GiB, the largest that etcd recommends.
	Quota int64
}

// Store is an etcd that is ready for requests, embedded or external. Open and Attach make it; its
// owner calls Close. Safe for concurrent use.
type Store struct {
	// Transport is the client configuration for k8s.io/apiserver's storage.
	Transport  storagebackend.TransportConfig
	embedded   *embed.Etcd
	shared     *sharedClient
	release    func() // the socket and the lock of the directory
	closed     atomic.Bool
	statusLock sync.RWMutex // held for reading during namedClient.Status
}

// Open starts the embedded etcd, or checks that an external server answers within ten seconds.
// Errors are *InUse, *Damaged, *Unreachable, or name the wrong option.
func Open(ctx context.Context, o Options) (*Store, error) {
	if len(o.Servers) > 0 {
		return openExternal(ctx, o)
	}
	if o.Dir == "" {
		return nil, fmt.Errorf("store: no directory for the embedded etcd: set a data directory or name etcd servers")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("store: directory %q: %w", o.Dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("store: cannot make %s: %w: choose a data directory this user may write", dir, err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("store: cannot close %s to others: %w: choose a data directory this user owns", dir, err)
	}
	unlock, err := lockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	s, err := startEmbedded(ctx, dir, o)
	if err != nil {
		unlock()
		return nil, err
	}
	s.openSharedClient(ctx, compaction)
	closeSocket := s.release
	s.release = func() { closeSocket(); unlock() }
	return s, nil
}

// Close stops an embedded etcd. Call it after the API server has stopped. Further calls do nothing.
func (s *Store) Close() {
	if s.closed.Swap(true) {
		return
	}
	s.statusLock.Lock() // waits for calls of Status; later ones see closed
	s.statusLock.Unlock()
	if s.shared != nil {
		s.shared.close()
	}
	if s.embedded != nil {
		s.embedded.Close()
	}
	if s.release != nil {
		s.release()
	}
}

// Embedded reports whether etcd runs in this process.
func (s *Store) Embedded() bool { return s.embedded != nil }

// Failed returns a channel with the error of an embedded etcd that stopped by itself; nil for an
// external one.
func (s *Store) Failed() <-chan error {
	if s.embedded == nil {
		return nil
	}
	return s.embedded.Err()
}

// Client returns an etcd client for maintenance (compaction, snapshots), which the caller closes.
func (s *Store) Client() (*clientv3.Client, error) {
	if s.embedded != nil {
		return newInProcessClient(s.embedded), nil
	}
	return dial(s.Transport)
}

// dial returns a client of external servers, or of an embedded etcd's socket. The caller closes it.
func dial(t storagebackend.TransportConfig) (*clientv3.Client, error) {
	cfg, err := dialConfig(t)
	if err != nil {
		return nil, err
	}
	return clientv3.New(cfg)
}

// dialConfig returns the client configuration; errors name the certificate file that is wrong or
// expired.
func dialConfig(t storagebackend.TransportConfig) (clientv3.Config, error) {
	cfg := clientv3.Config{Endpoints: t.ServerList, DialTimeout: 5 * time.Second, Logger: newEtcdLogger()}
	if t.TrustedCAFile != "" || t.CertFile != "" {
		tls, err := transport.TLSInfo{TrustedCAFile: t.TrustedCAFile, CertFile: t.CertFile,
			KeyFile: t.KeyFile}.ClientConfig()
		if err != nil {
			return cfg, fmt.Errorf("store: etcd client certificate: %w: check the etcd CA, certificate and key files",
				err)
		}
		cfg.TLS = tls
		if err := certificateExpired(t.CertFile, time.Now()); err != nil {
			return cfg, err
		}
	}
	return cfg, nil
}

// openExternal returns a store of external servers once one of them answers; otherwise
// *Unreachable.
func openExternal(ctx context.Context, o Options) (*Store, error) {
	t := storagebackend.TransportConfig{ServerList: o.Servers, TrustedCAFile: o.CAFile, CertFile: o.CertFile,
		KeyFile: o.KeyFile}
	c, err := dial(t)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := c.Get(ctx, Prefix, clientv3.WithCountOnly(), clientv3.WithLimit(1)); err != nil {
		return nil, &Unreachable{Servers: o.Servers, Err: err}
	}
	return &Store{Transport: t}, nil
}
