package crifake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Options say what the runtime is like at its start.
type Options struct {
	// holds the socket and the containers' own files; empty makes a temporary directory that Close
	// removes
	Dir      string
	InMemory bool         // no socket: Dial through Fake.Dialer; works inside testing/synctest
	PodCIDR  netip.Prefix // 10.88.0.0/16
	Images   []Image      // there from the start
	// Registry holds what can be pulled. Nil lets every name be pulled.
	Registry []Image
	Name     string // of the runtime, in its Version answer; containerd when empty
	// CgroupDriver is what RuntimeConfig says: cgroupfs when empty, systemd, or "none" for a
	// runtime that does not know the call.
	CgroupDriver string
}

// Fake is a running fake runtime. All methods are safe for concurrent use.
type Fake struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	opts     Options
	ownDir   bool
	listener *bufconn.Listener // in memory only
	faults   faultPlan
	calls    callRecorder
	bus      eventSender
	streams  streamServer

	mu     sync.Mutex
	server *grpc.Server // nil after Kill
	closed bool
	state
}

// state is everything the runtime knows; Fake.mu guards it.
type state struct {
	sandboxes  map[string]*sandbox
	containers map[string]*container
	images     map[string]*Image // by id
	registry   []Image
	rules      []rule
	ips        addressPool
	serial     int
	network    condition
	runtime    condition
	duplicates []string
	creating   map[string]creation // sandboxes that come late, by name
}

// Start makes a fake runtime and serves it.
func Start(o Options) (*Fake, error) {
	f := &Fake{opts: o, faults: newFaults(), calls: newCallLog(), bus: newEventBus(), state: state{
		registry:  o.Registry,
		sandboxes: map[string]*sandbox{}, containers: map[string]*container{}, images: map[string]*Image{},
		network: condition{true, "", ""}, runtime: condition{true, "", ""},
	}}
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "crifake")
		if err != nil {
			return nil, fmt.Errorf("crifake: %w", err)
		}
		f.opts.Dir, f.ownDir = dir, true
	}
	if !o.PodCIDR.IsValid() {
		o.PodCIDR = netip.MustParsePrefix("10.88.0.0/16")
	}
	f.ips = newAddresses(o.PodCIDR)
	for _, i := range o.Images {
		f.addImage(i)
	}
	if err := f.serve(); err != nil {
		return nil, err
	}
	return f, nil
}

// Endpoint is what Dial takes; in memory, Dialer is needed as well.
func (f *Fake) Endpoint() string { return "unix://" + filepath.Join(f.opts.Dir, "cri.sock") }

// Dialer connects to a fake in memory; nil when there is a socket.
func (f *Fake) Dialer() func(ctx context.Context, path string) (net.Conn, error) {
	if !f.opts.InMemory {
		return nil
	}
	return func(ctx context.Context, _ string) (net.Conn, error) {
		f.mu.Lock()
		l := f.listener
		f.mu.Unlock()
		if l == nil {
			return nil, errors.New("crifake is down")
		}
		return l.DialContext(ctx)
	}
}

func (f *Fake) serve() error {
	var l net.Listener
	if f.opts.InMemory {
		f.listener = bufconn.Listen(1 << 16)
		l = f.listener
	} else {
		path := filepath.Join(f.opts.Dir, "cri.sock")
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("crifake: %w", err)
		}
		var err error
		if l, err = net.Listen("unix", path); err != nil {
			return fmt.Errorf("crifake: %w", err)
		}
	}
	f.server = grpc.NewServer(grpc.UnaryInterceptor(f.intercept), grpc.WaitForHandlers(false))
	runtimeapi.RegisterRuntimeServiceServer(f.server, f)
	runtimeapi.RegisterImageServiceServer(f.server, f)
	go f.server.Serve(l) //nolint:errcheck // ends with Stop
	return nil
}

// Kill drops every connection, as when the runtime's process is killed. Containers go on; an open
// event stream ends, and events until Restart are lost.
func (f *Fake) Kill() {
	f.mu.Lock()
	s := f.server
	f.server, f.listener = nil, nil
	f.mu.Unlock()
	if s != nil {
		s.Stop()
	}
	f.bus.drop()
}

// currentServer is what Kill ends: another one after each Restart.
func (f *Fake) currentServer() *grpc.Server {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.server
}

// Restart serves again after Kill, with sandboxes and containers as they are now.
func (f *Fake) Restart() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.server != nil {
		return nil
	}
	return f.serve()
}

// Close ends every container and the server, and removes the directory if it was made here.
func (f *Fake) Close() {
	f.mu.Lock()
	f.closed = true
	var running []*container
	for _, c := range f.containers {
		running = append(running, c)
	}
	f.mu.Unlock()
	for _, c := range running {
		c.kill()
	}
	f.Kill()
	f.streams.close()
	if f.ownDir {
		_ = os.RemoveAll(f.opts.Dir)
	}
}

// SetNetworkReady changes the NetworkReady condition of Status; a node whose network is not ready
// is not Ready.
func (f *Fake) SetNetworkReady(ready bool, reason, message string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.network = condition{ready, reason, message}
}

type condition struct {
	ready           bool
	reason, message string
}
