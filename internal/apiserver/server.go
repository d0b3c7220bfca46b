package apiserver

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/registry/rest"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/apiserver/store"
	"github.com/gantry-project/gantry/internal/journal"
)

// Server is an API server that is built and can be run once.
type Server struct {
	inProcess     *inProcessHandler
	store         *store.Store
	listener      net.Listener
	lookupStorage func(group, resource string) rest.StandardStorage
	run           func(context.Context) error
	destroy       func() // ends what the storages run; Run does so by itself
	ready         chan struct{}
	closed        sync.Once
}

// New opens the store and the port and builds the handler chain. Errors are *PortTaken, *BadFile,
// *store.InUse, *store.Damaged, *store.Unreachable or name what is wrong. Run or Close the server
// it returns.
func New(ctx context.Context, c Config) (*Server, error) {
	if c.Journal.Sink == nil {
		c.Journal.Sink = journal.Discard{}
	}
	if c.Kubelets.Journal == nil {
		c.Kubelets.Journal = c.Journal.Sink
	}
	if c.Etcd.Dir == "" && len(c.Etcd.Servers) == 0 && c.DataDir != "" {
		c.Etcd.Dir = filepath.Join(c.DataDir, "etcd")
	}
	s := &Server{inProcess: newInProcessHandler(), ready: make(chan struct{})}
	var err error
	if s.listener, err = listen(c.Listen); err != nil {
		return nil, err
	}
	if s.store, err = store.Open(ctx, c.Etcd); err != nil {
		s.Close()
		return nil, err
	}
	b := &builder{config: c, server: s}
	s.lookupStorage = b.lookupStorage
	if err := b.build(); err != nil {
		s.Close()
		return nil, fmt.Errorf("API server: %w", err)
	}
	return s, nil
}

// Run serves until ctx ends, then stops gracefully: requests in flight are answered, watches end,
// etcd closes last.
func (s *Server) Run(ctx context.Context) error {
	s.destroy = nil
	defer s.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failed := make(chan error, 1)
	go func() {
		failed <- s.waitForStoreFailure(ctx)
		stop()
	}()
	go s.waitUntilReady(ctx)
	err := s.run(ctx)
	stop()
	if lost := <-failed; lost != nil {
		return lost
	}
	if err != nil {
		return fmt.Errorf("API server: %w", err)
	}
	return nil
}

// Close frees what a server that is not run holds. Run does it by itself.
func (s *Server) Close() {
	s.closed.Do(func() {
		if s.listener != nil {
			_ = s.listener.Close() // closed already when the server ran
		}
		if s.destroy != nil {
			s.destroy()
		}
		if s.store != nil {
			s.store.Close()
		}
	})
}

// Ready is closed when /readyz says ok for the first time.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Store is where objects live, for maintenance.
func (s *Server) Store() *store.Store { return s.store }

// InProcess is a client configuration that reaches this server without network, as the user given:
// the whole handler chain runs, and answers stream. Requests made before the server is built wait
// for it, for five seconds at most.
func (s *Server) InProcess(u user.Info) *restclient.Config { return s.inProcess.clientConfig(u) }

// ListerWatcher lists and watches all objects of a kind, as StorageListerWatcher does.
func (s *Server) ListerWatcher(group, resource string) cache.ListerWatcher {
	return StorageListerWatcher(func() rest.StandardStorage { return s.lookupStorage(group, resource) })
}

// waitForStoreFailure waits until the embedded etcd dies, or returns nil when ctx ends first.
func (s *Server) waitForStoreFailure(ctx context.Context) error {
	select {
	case err := <-s.store.Failed():
		return fmt.Errorf("the embedded etcd stopped: %w: see its last messages above, then start again", err)
	case <-ctx.Done():
		return nil
	}
}

// waitUntilReady asks /readyz until it says ok.
func (s *Server) waitUntilReady(ctx context.Context) {
	client, err := restclient.HTTPClientFor(s.InProcess(loopbackUser()))
	if err != nil {
		return
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, inProcessHost+"/readyz", nil)
		if err != nil {
			return
		}
		res, err := client.Do(req)
		if err != nil {
			continue
		}
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			close(s.ready)
			return
		}
	}
}

// loopbackUser is who the server is to itself.
func loopbackUser() user.Info {
	return &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup,
		user.AllAuthenticated}}
}
