package pluginmanager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// How long a plugin may take, as upstream.
const (
	infoTimeout   = 10 * time.Second
	notifyTimeout = 5 * time.Second
)

// register asks the plugin at the socket what it is, hands it to the handler of its type and tells
// it what became of that. What was learned is returned with an error too.
func (m *Manager) register(ctx context.Context, path string) (Plugin, error) {
	p := Plugin{Socket: path}
	fail := func(err error) (Plugin, error) {
		p.Err = err.Error()
		return p, err
	}
	conn, err := dial(path)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = conn.Close() }()
	client := registerapi.NewRegistrationClient(conn)
	asking, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	info, err := client.GetInfo(asking, &registerapi.InfoRequest{}, grpc.WaitForReady(false))
	if err != nil {
		return fail(fmt.Errorf("RegisterPlugin error -- failed to get plugin info using RPC GetInfo at socket %s, "+
			"err: %w", path, err))
	}
	p.Type, p.Name, p.Endpoint = info.Type, info.Name, info.Endpoint
	if p.Endpoint == "" {
		p.Endpoint = path
	}
	err = m.take(p, info.SupportedVersions)
	status := &registerapi.RegistrationStatus{PluginRegistered: err == nil}
	if err != nil {
		status.Error = err.Error()
	}
	telling, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	_, told := client.NotifyRegistrationStatus(telling, status)
	switch {
	case err != nil:
		return fail(errors.Join(err, told))
	case told != nil:
		// As upstream: a plugin that cannot be told is registered nevertheless.
		m.log.Error(told, "A plugin could not be told that it is registered", "socket", path, "plugin", p.Name)
	}
	p.Registered = true
	return p, nil
}

// take hands the plugin to the handler of its type.
func (m *Manager) take(p Plugin, versions []string) error {
	h := m.handler(p.Type)
	if h == nil {
		return fmt.Errorf("RegisterPlugin error -- no handler registered for plugin type: %s at socket %s", p.Type,
			p.Socket)
	}
	if err := h.ValidatePlugin(p.Name, p.Endpoint, versions); err != nil {
		return fmt.Errorf("RegisterPlugin error -- plugin validation failed with err: %w", err)
	}
	if err := h.RegisterPlugin(p.Name, p.Endpoint, versions); err != nil {
		return fmt.Errorf("RegisterPlugin error -- plugin registration failed with err: %w", err)
	}
	return nil
}

func (m *Manager) deRegister(p Plugin) {
	m.log.Info("A plugin's socket is gone", "socket", p.Socket, "plugin", p.Name, "type", p.Type)
	if h := m.handler(p.Type); h != nil {
		h.DeRegisterPlugin(p.Name, p.Endpoint)
	}
}

func (m *Manager) handler(pluginType string) Handler {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.handlers[pluginType]
}

// dial connects to a socket whose path may hold any characters.
func dial(path string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
}
