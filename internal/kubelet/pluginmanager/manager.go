package pluginmanager

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// Handler is told of the plugins of one type, upstream's PluginHandler. Calls about one socket
// follow each other; calls about different sockets run side by side.
type Handler interface {
	// ValidatePlugin refuses a plugin before anything is done for it.
	ValidatePlugin(name, endpoint string, versions []string) error
	// RegisterPlugin takes the plugin in. The plugin is told the error.
	RegisterPlugin(name, endpoint string, versions []string) error
	// DeRegisterPlugin drops it: its socket is gone, or is another one. A plugin of the same name
	// may be registered at another endpoint by then, which stays.
	DeRegisterPlugin(name, endpoint string)
}

// Plugin is what is known of one socket.
type Plugin struct {
	Socket     string
	Type, Name string    // as the plugin says; empty until it answered
	Endpoint   string    // where it serves; empty until it answered
	Registered bool      // a handler took it in
	Err        string    // why it is not registered
	Since      time.Time // of the socket, of the registration or of the last error
}

// Manager registers plugins.
type Manager struct {
	dir string
	log klog.Logger

	mu       sync.Mutex
	handlers map[string]Handler
	sockets  map[string]*socket
	changed  chan struct{} // closed and replaced when a Plugin is another
	workers  sync.WaitGroup
}

// New returns a Manager of the sockets below dir, <root>/plugins_registry.
func New(dir string, log klog.Logger) *Manager {
	return &Manager{dir: dir, log: log, handlers: map[string]Handler{}, sockets: map[string]*socket{},
		changed: make(chan struct{})}
}

// AddHandler has plugins of the type registered with h. It is called before Run.
func (m *Manager) AddHandler(pluginType string, h Handler) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.handlers[pluginType] = h
}

// Plugins lists the sockets that are there, by path; changed is closed when the list is another.
func (m *Manager) Plugins() (plugins []Plugin, changed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sockets {
		plugins = append(plugins, s.plugin)
	}
	slices.SortFunc(plugins, func(a, b Plugin) int { return strings.Compare(a.Socket, b.Socket) })
	return plugins, m.changed
}

// Run makes the directory, registers the plugins in it and follows it until ctx ends. Plugins stay
// registered with their handlers then.
func (m *Manager) Run(ctx context.Context) error {
	if err := os.MkdirAll(m.dir, 0o750); err != nil {
		return fmt.Errorf("pluginmanager: %w", err)
	}
	err := m.watch(ctx)
	m.workers.Wait()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("pluginmanager: %s: %w", m.dir, err)
	}
	return nil
}

// update changes what is known of a socket and tells those who wait for it.
func (m *Manager) update(s *socket, change func(*Plugin)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&s.plugin)
	s.plugin.Since = time.Now()
	close(m.changed)
	m.changed = make(chan struct{})
}
