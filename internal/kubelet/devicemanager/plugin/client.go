package plugin

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/devicemanager"
)

// Limits of what a plugin is waited for.
const (
	connectTimeout   = 10 * time.Second
	preferTimeout    = 10 * time.Second
	preStartTimeout  = pluginapi.KubeletPreStartContainerRPCTimeoutInSecs * time.Second
	allocateTimeout  = time.Minute            // upstream has none: one Pod fails, others wait for nothing
	reportInterval   = 100 * time.Millisecond // between two looks at a plugin's reports
	maxDevicesReport = 1 << 16                // more devices in one report are nonsense
)

// Client is one plugin. Its calls may come from any goroutine.
type Client struct {
	Resource string
	Path     string // of the plugin's socket
	Options  *pluginapi.DevicePluginOptions

	ctx   context.Context // ends with the plugin
	close context.CancelFunc
	conn  *grpc.ClientConn
	api   pluginapi.DevicePluginClient
	done  chan struct{} // closed when the plugin has been told of as disconnected
}

// dial reaches a plugin and asks it for its options.
func dial(ctx context.Context, resource, path string, sockets Sockets) (*Client, error) {
	own, cancel := context.WithCancel(ctx)
	c := &Client{Resource: resource, Path: path, ctx: own, close: cancel, done: make(chan struct{})}
	fail := func(err error) (*Client, error) {
		cancel()
		if c.conn != nil {
			_ = c.conn.Close() // nothing was sent that matters
		}
		return nil, err
	}
	limited, stop := context.WithTimeout(own, connectTimeout)
	defer stop()
	probe, err := sockets.Dial(limited, path)
	if err != nil {
		return fail(fmt.Errorf("failed to dial device plugin: %w", err))
	}
	_ = probe.Close() // it was only to see that somebody listens
	c.conn, err = grpc.NewClient("passthrough:///"+path, grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return sockets.Dial(ctx, path)
		}))
	if err != nil {
		return fail(fmt.Errorf("failed to dial device plugin: %w", err))
	}
	c.api = pluginapi.NewDevicePluginClient(c.conn)
	if c.Options, err = c.api.GetDevicePluginOptions(limited, &pluginapi.Empty{}); err != nil {
		return fail(fmt.Errorf("failed to get device plugin options: %w", err))
	}
	return c, nil
}

// run brings the plugin's reports to the handler until the stream breaks or the client is closed.
func (c *Client) run(h Handler) {
	log := klog.FromContext(c.ctx).WithValues("resourceName", c.Resource)
	defer func() {
		c.close()
		_ = c.conn.Close() // the plugin is gone, or is told by it
	}()
	reports := make(chan []*pluginapi.Device, 1)
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		c.handle(h, reports)
	}()
	err := c.receive(reports)
	close(reports)
	<-looked
	if c.ctx.Err() == nil {
		log.Error(err, "ListAndWatch ended unexpectedly for device plugin")
	}
}

// receive reads reports; the newest replaces one that nobody has looked at.
func (c *Client) receive(reports chan []*pluginapi.Device) error {
	stream, err := c.api.ListAndWatch(c.ctx, &pluginapi.Empty{})
	if err != nil {
		return err
	}
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		if n := len(r.GetDevices()); n > maxDevicesReport {
			return fmt.Errorf("%d devices in one report, at most %d are possible", n, maxDevicesReport)
		}
		select {
		case <-reports:
		default:
		}
		reports <- r.GetDevices()
	}
}

// handle looks at the newest report, and then for a moment at none, so that a flood costs little.
func (c *Client) handle(h Handler, reports <-chan []*pluginapi.Device) {
	for devices := range reports {
		h.DevicesReported(c, devices)
		select {
		case <-time.After(reportInterval):
		case <-c.ctx.Done():
		}
	}
}

// stopped is the error of calls to a plugin that is gone.
func (c *Client) stopped() error {
	if c.ctx.Err() != nil {
		return fmt.Errorf("endpoint %s has been stopped", c.Path)
	}
	return nil
}

// Allocate has the plugin prepare devices for one container.
func (c *Client) Allocate(ctx context.Context, ids []string) (*pluginapi.ContainerAllocateResponse, error) {
	if err := c.stopped(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, allocateTimeout)
	defer cancel()
	r, err := c.api.Allocate(ctx, &pluginapi.AllocateRequest{
		ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids}}})
	if err != nil {
		return nil, err
	}
	if len(r.GetContainerResponses()) == 0 {
		return nil, fmt.Errorf("no containers return in allocation response %v", r)
	}
	return r.GetContainerResponses()[0], nil
}

// Prefer asks the plugin which devices it prefers.
func (c *Client) Prefer(ctx context.Context, q *devicemanager.Preference) (devicemanager.Set, error) {
	if err := c.stopped(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, preferTimeout)
	defer cancel()
	r, err := c.api.GetPreferredAllocation(ctx, &pluginapi.PreferredAllocationRequest{
		ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{AvailableDeviceIDs: q.Available,
			MustIncludeDeviceIDs: q.MustInclude, AllocationSize: int32(q.Size)}}})
	if err != nil {
		return nil, fmt.Errorf("device plugin GetPreferredAllocation rpc failed with err: %w", err)
	}
	if len(r.GetContainerResponses()) == 0 {
		return devicemanager.Set{}, nil
	}
	return devicemanager.SetOf(r.GetContainerResponses()[0].GetDeviceIDs()...), nil
}

// PreStart has the plugin do what must come right before a container starts.
func (c *Client) PreStart(ctx context.Context, ids []string) error {
	if err := c.stopped(); err != nil {
		return fmt.Errorf("device plugin PreStartContainer rpc failed with err: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, preStartTimeout)
	defer cancel()
	if _, err := c.api.PreStartContainer(ctx, &pluginapi.PreStartContainerRequest{DevicesIds: ids}); err != nil {
		return fmt.Errorf("device plugin PreStartContainer rpc failed with err: %w", err)
	}
	return nil
}
