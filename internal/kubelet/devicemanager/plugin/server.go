package plugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/gantry-project/gantry/internal/pod/fit"
)

// Handler is told of plugins. Calls for one resource come one after another.
type Handler interface {
	// PluginConnected tells that a plugin serves a resource, before its first devices.
	PluginConnected(resource string, c *Client)
	// PluginDisconnected tells that it does so no longer.
	PluginDisconnected(resource string, c *Client)
	// DevicesReported brings a plugin's newest report.
	DevicesReported(c *Client, devices []*pluginapi.Device)
}

// Deps is what a Server works with.
type Deps struct {
	Dir     string // of the sockets: the kubelet's own and those of the plugins
	Sockets Sockets
	Handler Handler
	// told of each registration, for the metric; may be nil
	Registered func(resource string)
}

// Server is the registration service. Make one with New.
type Server struct {
	pluginapi.UnimplementedRegistrationServer
	d Deps

	mu      sync.Mutex
	ctx     context.Context
	clients map[string]*Client // by the plugin's socket
	wg      sync.WaitGroup
}

// New returns a Server; Start makes it serve.
func New(d Deps) *Server { return &Server{d: d, clients: map[string]*Client{}} }

// SocketPath is where plugins register.
func (s *Server) SocketPath() string {
	return filepath.Join(s.d.Dir, filepath.Base(pluginapi.KubeletSocket))
}

// Start removes the sockets that are left in the directory, which tells plugins that they must
// register again, and serves until ctx ends. The function returned waits for the end.
func (s *Server) Start(ctx context.Context) (wait func(), err error) {
	if err := os.MkdirAll(s.d.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("directory of device plugins: %w", err)
	}
	if err := removeSockets(s.d.Dir); err != nil {
		return nil, fmt.Errorf("directory of device plugins: %w", err)
	}
	l, err := s.d.Sockets.Listen(s.SocketPath())
	if err != nil {
		return nil, fmt.Errorf("socket of device plugins: %w", err)
	}
	s.mu.Lock()
	s.ctx = ctx
	s.mu.Unlock()
	g := grpc.NewServer()
	pluginapi.RegisterRegistrationServer(g, s)
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		if err := g.Serve(l); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Device plugins cannot register any longer")
		}
	}()
	context.AfterFunc(ctx, g.Stop)
	return s.wg.Wait, nil
}

func removeSockets(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Type()&os.ModeSocket != 0 {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// Register takes a plugin in: it is connected to before the answer, as upstream does. The errors
// are upstream's.
func (s *Server) Register(ctx context.Context, r *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	log := klog.FromContext(ctx).WithValues("resourceName", r.GetResourceName(), "endpoint", r.GetEndpoint())
	log.Info("Got registration request from device plugin with resource")
	if s.d.Registered != nil {
		s.d.Registered(r.GetResourceName())
	}
	if err := validate(r); err != nil {
		log.Error(err, "Bad registration request from device plugin with resource")
		return &pluginapi.Empty{}, err
	}
	path := filepath.Join(s.d.Dir, filepath.Clean("/"+r.GetEndpoint()))
	if err := s.connect(r.GetResourceName(), path); err != nil {
		log.Error(err, "Error connecting to device plugin client")
		return &pluginapi.Empty{}, err
	}
	return &pluginapi.Empty{}, nil
}

func validate(r *pluginapi.RegisterRequest) error {
	if !slices.Contains(pluginapi.SupportedVersions[:], r.GetVersion()) {
		return fmt.Errorf("requested API version %q is not supported by kubelet. Supported version is %q",
			r.GetVersion(), pluginapi.SupportedVersions)
	}
	name := r.GetResourceName()
	if !fit.IsExtended(v1.ResourceName(name)) ||
		len(validation.IsQualifiedName(v1.DefaultResourceRequestsPrefix+name)) > 0 {
		return fmt.Errorf("the ResourceName %q is invalid", name)
	}
	if r.GetEndpoint() == "" || strings.ContainsRune(r.GetEndpoint(), 0) {
		return fmt.Errorf("the Endpoint %q is invalid", r.GetEndpoint())
	}
	return nil
}

// connect makes a client for the plugin and has it run. One that is already there for the socket
// ends: the plugin has begun anew.
func (s *Server) connect(resource, path string) error {
	s.mu.Lock()
	ctx := s.ctx
	s.mu.Unlock()
	if ctx == nil {
		return errors.New("the kubelet does not serve device plugins yet")
	}
	c, err := dial(ctx, resource, path, s.d.Sockets)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.clients[path]; old != nil {
		old.close()
		<-old.done // told of as disconnected, before the new one is told of
	}
	s.clients[path] = c
	s.d.Handler.PluginConnected(resource, c)
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		c.run(s.d.Handler)
		s.d.Handler.PluginDisconnected(resource, c)
		close(c.done)
		s.mu.Lock()
		if s.clients[path] == c {
			delete(s.clients, path)
		}
		s.mu.Unlock()
	}()
	return nil
}
