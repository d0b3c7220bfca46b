package deviceplugintest

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/plugin"
)

// Plugin is a device plugin. Set its fields before Start; Report changes its devices.
type Plugin struct {
	pluginapi.UnimplementedDevicePluginServer
	Resource, Socket string
	Options          *pluginapi.DevicePluginOptions
	// what it answers; nil: an answer that names each device (DEVICES, /dev/ID, cdi
	// example.com/x=ID)
	Answer func(ids []string) (*pluginapi.AllocateResponse, error)
	// what it prefers; nil: nothing
	Prefer func(r *pluginapi.ContainerPreferredAllocationRequest) []string
	// waits before it answers Allocate, until the call's end; nil: does not
	Hang func(ctx context.Context)

	mu        sync.Mutex
	allocated [][]string
	started   [][]string
	devices   []*pluginapi.Device
	changed   chan struct{}
	server    *grpc.Server
}

// Device is a device without NUMA nodes, or with those given.
func Device(id, health string, nodes ...int64) *pluginapi.Device {
	d := &pluginapi.Device{ID: id, Health: health}
	for _, n := range nodes {
		if d.Topology == nil {
			d.Topology = &pluginapi.TopologyInfo{}
		}
		d.Topology.Nodes = append(d.Topology.Nodes, &pluginapi.NUMANode{ID: n})
	}
	return d
}

// Healthy are healthy devices.
func Healthy(ids ...string) (out []*pluginapi.Device) {
	for _, id := range ids {
		out = append(out, Device(id, pluginapi.Healthy))
	}
	return out
}

// Start serves in a directory of sockets and registers there.
func (p *Plugin) Start(ctx context.Context, dir string, sockets plugin.Sockets) error {
	if err := p.Serve(dir, sockets); err != nil {
		return err
	}
	return p.Register(ctx, dir, sockets)
}

// Serve serves on the plugin's socket.
func (p *Plugin) Serve(dir string, sockets plugin.Sockets) error {
	l, err := sockets.Listen(filepath.Join(dir, p.Socket))
	if err != nil {
		return err
	}
	p.mu.Lock()
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	p.mu.Unlock()
	p.server = grpc.NewServer()
	pluginapi.RegisterDevicePluginServer(p.server, p)
	go func() { _ = p.server.Serve(l) }() // ends with Stop
	return nil
}

// Register registers with the kubelet.
func (p *Plugin) Register(ctx context.Context, dir string, sockets plugin.Sockets) error {
	return Register(ctx, filepath.Join(dir, "kubelet.sock"), sockets, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: p.Socket, ResourceName: p.Resource, Options: p.Options})
}

// Register sends one registration to the kubelet's socket.
func Register(ctx context.Context, path string, sockets plugin.Sockets, r *pluginapi.RegisterRequest) error {
	conn, err := grpc.NewClient("passthrough:///"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return sockets.Dial(ctx, path)
		}))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // the answer is there
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, r)
	return err
}

// Stop ends the plugin as a kill would: its connections break.
func (p *Plugin) Stop() { p.server.Stop() }

// Report has the plugin send these devices.
func (p *Plugin) Report(devices ...*pluginapi.Device) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.devices = devices
	if p.changed != nil {
		close(p.changed)
	}
	p.changed = make(chan struct{})
}

// Allocated are the ids of each Allocate call, in order.
func (p *Plugin) Allocated() [][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.allocated)
}

// Started are the ids of each PreStartContainer call, in order.
func (p *Plugin) Started() [][]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.started)
}

// GetDevicePluginOptions is the API's.
func (p *Plugin) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	if p.Options == nil {
		return &pluginapi.DevicePluginOptions{}, nil
	}
	return p.Options, nil
}

// ListAndWatch is the API's.
func (p *Plugin) ListAndWatch(_ *pluginapi.Empty, s pluginapi.DevicePlugin_ListAndWatchServer) error {
	for {
		p.mu.Lock()
		devices, changed := p.devices, p.changed
		p.mu.Unlock()
		if err := s.Send(&pluginapi.ListAndWatchResponse{Devices: devices}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-s.Context().Done():
			return nil
		}
	}
}

// GetPreferredAllocation is the API's.
func (p *Plugin) GetPreferredAllocation(_ context.Context,
	r *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	out := &pluginapi.PreferredAllocationResponse{}
	for _, c := range r.GetContainerRequests() {
		out.ContainerResponses = append(out.ContainerResponses,
			&pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: p.Prefer(c)})
	}
	return out, nil
}

// Allocate is the API's.
func (p *Plugin) Allocate(ctx context.Context, r *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	ids := slices.Sorted(slices.Values(r.GetContainerRequests()[0].GetDevicesIds()))
	p.mu.Lock()
	p.allocated = append(p.allocated, ids)
	p.mu.Unlock()
	if p.Hang != nil {
		p.Hang(ctx)
	}
	if p.Answer != nil {
		return p.Answer(ids)
	}
	c := &pluginapi.ContainerAllocateResponse{Envs: map[string]string{"DEVICES": fmt.Sprint(ids)},
		Annotations: map[string]string{"example.com/devices": fmt.Sprint(ids)},
		Mounts:      []*pluginapi.Mount{{ContainerPath: "/lib/vendor", HostPath: "/usr/share", ReadOnly: true}}}
	for _, id := range ids {
		c.Devices = append(c.Devices, &pluginapi.DeviceSpec{ContainerPath: "/dev/" + id, HostPath: "/dev/host-" + id,
			Permissions: "rw"})
		c.CdiDevices = append(c.CdiDevices, &pluginapi.CDIDevice{Name: p.Resource + "=" + id})
	}
	return &pluginapi.AllocateResponse{ContainerResponses: []*pluginapi.ContainerAllocateResponse{c}}, nil
}

// PreStartContainer is the API's.
func (p *Plugin) PreStartContainer(_ context.Context,
	r *pluginapi.PreStartContainerRequest) (*pluginapi.PreStartContainerResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started = append(p.started, r.GetDevicesIds())
	return &pluginapi.PreStartContainerResponse{}, nil
}
