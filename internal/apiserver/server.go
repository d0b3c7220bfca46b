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

// Server is an API server that New has built. It can be run once.
type Server struct {
	inProcess     *inProcessHandler
	store         *store.Store
	listener      net.Listener
	lookupStorage func(group, resource string) rest.StandardStorage
	run           func(context.Context) error
	destroy       func() // stops the storages; Run does so by itself
	ready         chan struct{}
	closed        sync.Once
}

// New opens the store and the port and builds the handler chain. Errors are *PortTaken, *BadFile,
// *store.InUse, *store.Damaged, *store.Unreachable, or name the wrong option. The caller calls Run
// or Close.
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

// Run serves until ctx ends, then shuts down gracefully: requests in flight are answered, watches
// end (those of in-process clients when Run returns at the latest), etcd is closed last. It returns
// an error if serving or the embedded etcd fails. Call it once.
func (s *Server) Run(ctx context.Context) error {
	s.destroy = nil
	defer s.Close()
	asked := ctx
	ctx, cancel := context.WithCancel(context.WithoutCancel(asked))
	stop := func() {
		s.inProcess.stop() // before the server ends its watches
		cancel()
	}
	defer stop()
	defer context.AfterFunc(asked, stop)()
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

// Close releases the port and the store of a server that is not run; Run does so by itself.
func (s *Server) Close() {
	s.closed.Do(func() {
		defer s.inProcess.close()
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

// Ready returns a channel that is closed when /readyz is ok for the first time.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Addr returns the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Store returns the server's store, for maintenance.
func (s *Server) Store() *store.Store { return s.store }

// InProcess returns a client configuration that calls this server's handler chain in memory as the
// given user; responses stream. Requests made before the chain is built wait for it for five
// seconds at most.
func (s *Server) InProcess(u user.Info) *restclient.Config { return s.inProcess.clientConfig(u) }

// ListerWatcher returns a ListerWatcher of all objects of a resource; see StorageListerWatcher.
func (s *Server) ListerWatcher(group, resource string) cache.ListerWatcher {
	return StorageListerWatcher(func() rest.StandardStorage { return s.lookupStorage(group, resource) })
}

// waitForStoreFailure returns the error of an embedded etcd that stops by itself; nil when ctx ends
// first.
func (s *Server) waitForStoreFailure(ctx context.Context) error {
	select {
	case err := <-s.store.Failed():
		return fmt.Errorf("the embedded etcd stopped: %w: see its last messages above, then start again", err)
	case <-ctx.Done():
		return nil
	}
}

// waitUntilReady polls /readyz until it is ok or ctx ends.
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

// loopbackUser returns the user of the server's own client.
func loopbackUser() user.Info {
	return &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup,
		user.AllAuthenticated}}
}
