package plugin

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	drahealthv1 "k8s.io/kubelet/pkg/apis/dra-health/v1"
	drahealthv1alpha1 "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	drapbv1 "k8s.io/kubelet/pkg/apis/dra/v1"
	drapbv1beta1 "k8s.io/kubelet/pkg/apis/dra/v1beta1"
)

const (
	callTimeout = 45 * time.Second // of preparing and unpreparing, upstream's
	healthRetry = 5 * time.Second

	maxReconnect = 3 * time.Second // between two tries to reach a driver
)

// Driver is one plugin of a driver. Its calls may come from any goroutine.
type Driver struct {
	name, endpoint, service string
	connected               bool // Drivers.mu

	ctx   context.Context // ends with the registration
	close context.CancelFunc
	conn  *grpc.ClientConn
}

// Name is the driver's name.
func (d *Driver) Name() string { return d.name }

func (s *Drivers) dial(name, endpoint, service string) (*Driver, error) {
	d := &Driver{name: name, endpoint: endpoint, service: service}
	count := func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, call grpc.UnaryInvoker,
		opts ...grpc.CallOption) error {
		startedAt := time.Now()
		err := call(ctx, method, req, reply, conn, opts...)
		if s.d.Called != nil {
			s.d.Called(name, method, err, time.Since(startedAt))
		}
		return err
	}
	conn, err := grpc.NewClient("passthrough:///"+endpoint, grpc.WithAuthority("localhost"),
		// one that comes back is found before its ResourceSlices are deleted (WipingDelay)
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: maxReconnect, Backoff: backoff.Config{
			BaseDelay: time.Second, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxReconnect}}),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithChainUnaryInterceptor(count),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return s.d.Dial(ctx, endpoint)
		}))
	if err != nil {
		return nil, fmt.Errorf("create gRPC connection to DRA driver %s plugin at endpoint %s: %w", name, endpoint, err)
	}
	d.conn = conn
	d.ctx, d.close = context.WithCancel(s.ctx)
	return d, nil
}

// watch tells whether the driver can be reached, and keeps trying to reach it, until it is closed.
func (d *Driver) watch(tell func(connected bool)) {
	defer func() { _ = d.conn.Close() }() // nobody calls it any more
	for {
		state := d.conn.GetState()
		tell(state == connectivity.Ready)
		if state == connectivity.Idle {
			d.conn.Connect()
		}
		if !d.conn.WaitForStateChange(d.ctx, state) {
			return
		}
	}
}

// Prepare has the driver prepare claims (NodePrepareResources).
func (d *Driver) Prepare(ctx context.Context, claims []*drapbv1.Claim) (*drapbv1.NodePrepareResourcesResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req := &drapbv1.NodePrepareResourcesRequest{Claims: claims}
	if d.service == drapbv1beta1.DRAPluginService {
		client := drapbv1beta1.NewDRAPluginClient(d.conn)
		return drapbv1beta1.V1Beta1ClientWrapper{DRAPluginClient: client}.NodePrepareResources(ctx, req)
	}
	return drapbv1.NewDRAPluginClient(d.conn).NodePrepareResources(ctx, req)
}

// Unprepare has the driver undo it (NodeUnprepareResources).
func (d *Driver) Unprepare(ctx context.Context,
	claims []*drapbv1.Claim) (*drapbv1.NodeUnprepareResourcesResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req := &drapbv1.NodeUnprepareResourcesRequest{Claims: claims}
	if d.service == drapbv1beta1.DRAPluginService {
		client := drapbv1beta1.NewDRAPluginClient(d.conn)
		return drapbv1beta1.V1Beta1ClientWrapper{DRAPluginClient: client}.NodeUnprepareResources(ctx, req)
	}
	return drapbv1.NewDRAPluginClient(d.conn).NodeUnprepareResources(ctx, req)
}

// watchHealth brings the driver's reports about its devices until it is closed, or says that it has
// none.
func (d *Driver) watchHealth(service string, tell func(string, *drahealthv1.NodeWatchResourcesResponse)) {
	for d.ctx.Err() == nil {
		err := d.followHealth(service, tell)
		if status.Code(err) == codes.Unimplemented {
			return // one that learns it registers anew
		}
		klog.FromContext(d.ctx).V(3).Info("WatchResources health stream has ended", "driverName", d.name, "err", err)
		select {
		case <-time.After(healthRetry):
		case <-d.ctx.Done():
		}
	}
}

func (d *Driver) followHealth(service string, tell func(string, *drahealthv1.NodeWatchResourcesResponse)) error {
	var stream drahealthv1.DRAResourceHealth_NodeWatchResourcesClient
	var err error
	if service == drahealthv1alpha1.DRAResourceHealthService {
		client := drahealthv1alpha1.NewDRAResourceHealthClient(d.conn)
		stream, err = drahealthv1.V1Alpha1ClientWrapper{Client: client}.NodeWatchResources(d.ctx,
			&drahealthv1.NodeWatchResourcesRequest{})
	} else {
		stream, err = drahealthv1.NewDRAResourceHealthClient(d.conn).NodeWatchResources(d.ctx,
			&drahealthv1.NodeWatchResourcesRequest{})
	}
	if err != nil {
		return err
	}
	for {
		report, err := stream.Recv()
		if err != nil {
			return err
		}
		tell(d.name, report)
	}
}
