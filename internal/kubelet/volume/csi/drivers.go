package csi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/klog/v2"
)

// callTimeout is how long a driver may take for one call, as upstream.
const callTimeout = 2 * time.Minute

// NodeInfo makes a driver known in the API: the Node's annotation and labels, the CSINode object.
type NodeInfo interface {
	InstallCSIDriver(ctx context.Context, name string, info *csipb.NodeGetInfoResponse) error
	// UpdateCSIDriver tells the CSINode alone of what the driver says now.
	UpdateCSIDriver(ctx context.Context, name string, info *csipb.NodeGetInfoResponse) error
	UninstallCSIDriver(ctx context.Context, name string) error
}

// Drivers are the CSI drivers that are registered with this kubelet.
type Drivers struct {
	ctx  context.Context
	info NodeInfo
	// Called, when not nil, is told of each call that a driver answered or that was given up: its
	// full method. It is set before drivers register.
	Called func(driver, method string, err error, took time.Duration)
	// Registered, when not nil, is told after drivers registered; must not block, set as Called.
	Registered func()

	mu      sync.Mutex
	drivers map[string]*driver
	calls   map[*Call]bool
}

// driver is a registration.
type driver struct {
	name, endpoint string
	conn           *grpc.ClientConn
	node           csipb.NodeClient

	mu    sync.Mutex
	known bool // caps were told
	caps  map[csipb.NodeServiceCapability_RPC_Type]bool
	slow  time.Time       // when it did not say in time how full a volume is
	sizes map[string]size // of its volumes on this node, by handle
}

// Call is a call of a driver that is not answered yet.
type Call struct {
	Driver, Method string
	Since          time.Time
}

// NewDrivers returns the registry; info tells the API of drivers until ctx ends.
func NewDrivers(ctx context.Context, info NodeInfo) *Drivers {
	return &Drivers{ctx: ctx, info: info, drivers: map[string]*driver{}, calls: map[*Call]bool{}}
}

// PendingCalls are the calls that drivers have not answered yet.
func (d *Drivers) PendingCalls() []Call {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []Call
	for c := range d.calls {
		out = append(out, *c)
	}
	return out
}

// Names are the names of the registered drivers.
func (d *Drivers) Names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for name := range d.drivers {
		out = append(out, name)
	}
	return out
}

// ValidatePlugin refuses drivers that speak no version 1 of CSI.
func (d *Drivers) ValidatePlugin(name, endpoint string, versions []string) error {
	if name == "" || strings.ContainsAny(name, "/") || len(name) > 63 {
		return fmt.Errorf("%q is no name of a CSI driver: it has at most 63 letters, digits, '-' and '.'", name)
	}
	if len(versions) == 0 {
		return fmt.Errorf("kubernetes.io/csi: plugin validation failed for CSI Driver %s at endpoint %s: must "+
			"support at least one version", name, endpoint)
	}
	for _, v := range versions {
		if major, _, _ := strings.Cut(strings.TrimPrefix(v, "v"), "."); major == "1" {
			return nil
		}
	}
	return fmt.Errorf("validation failed for CSI Driver %s at endpoint %s: None of the versions specified %v are "+
		"supported. err=no highest version of 1", name, endpoint, strconv.Quote(strings.Join(versions, " ")))
}

// RegisterPlugin takes the driver in: it is asked what it calls this node, and the API is told.
func (d *Drivers) RegisterPlugin(name, endpoint string, _ []string) error {
	x, err := newDriver(name, endpoint, d.intercept)
	if err != nil {
		return err
	}
	d.put(x)
	ctx, cancel := context.WithTimeout(d.ctx, callTimeout)
	defer cancel()
	info, err := x.node.NodeGetInfo(ctx, &csipb.NodeGetInfoRequest{})
	switch {
	case err == nil && info.GetNodeId() == "":
		err = fmt.Errorf("kubernetes.io/csi: registrationHandler.RegisterPlugin failed: driver %s answered "+
			"NodeGetInfo without a node id", name)
	case err == nil:
		err = d.info.InstallCSIDriver(ctx, name, info)
	}
	if err != nil {
		err = errors.Join(err, d.remove(name, endpoint))
	} else if d.Registered != nil {
		d.Registered()
	}
	return err
}

// DeRegisterPlugin drops the driver, unless one of its name took its place at another endpoint.
func (d *Drivers) DeRegisterPlugin(name, endpoint string) {
	if err := d.remove(name, endpoint); err != nil {
		klog.FromContext(d.ctx).Error(err, "registrationHandler.DeRegisterPlugin failed", "driverName", name)
	}
}

func (d *Drivers) put(x *driver) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.drivers[x.name]; old != nil {
		_ = old.conn.Close()
	}
	d.drivers[x.name] = x
}

func (d *Drivers) remove(name, endpoint string) error {
	d.mu.Lock()
	x := d.drivers[name]
	if x == nil || x.endpoint != endpoint {
		d.mu.Unlock()
		return nil
	}
	delete(d.drivers, name)
	d.mu.Unlock()
	_ = x.conn.Close()
	return d.info.UninstallCSIDriver(d.ctx, name)
}

// find is the registration of a driver.
func (d *Drivers) find(name string) (*driver, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x := d.drivers[name]; x != nil {
		return x, nil
	}
	return nil, fmt.Errorf("driver name %s not found in the list of registered CSI drivers", name)
}

// intercept keeps the calls that are not answered.
func (d *Drivers) intercept(name string) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption) error {
		c := &Call{Driver: name, Method: method[strings.LastIndex(method, "/")+1:], Since: time.Now()}
		d.mu.Lock()
		d.calls[c] = true
		d.mu.Unlock()
		defer func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			delete(d.calls, c)
		}()
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		err := invoke(ctx, method, req, reply, cc, opts...)
		if d.Called != nil {
			d.Called(name, method, err, time.Since(c.Since))
		}
		return err
	}
}

func newDriver(name, endpoint string, intercept func(string) grpc.UnaryClientInterceptor) (*driver, error) {
	path := strings.TrimPrefix(endpoint, "unix://")
	conn, err := grpc.NewClient("passthrough:///"+name, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(intercept(name)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond,
			Multiplier: 1.6, MaxDelay: 2 * time.Second}, MinConnectTimeout: 5 * time.Second}),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		return nil, err
	}
	return &driver{name: name, endpoint: endpoint, conn: conn, node: csipb.NewNodeClient(conn),
		sizes: map[string]size{}}, nil
}

// can tells whether the driver has a capability; it is asked until it has answered once.
func (x *driver) can(ctx context.Context, c csipb.NodeServiceCapability_RPC_Type) (bool, error) {
	x.mu.Lock()
	known, has := x.known, x.caps[c]
	x.mu.Unlock()
	if known {
		return has, nil
	}
	got, err := x.node.NodeGetCapabilities(ctx, &csipb.NodeGetCapabilitiesRequest{})
	if err != nil {
		return false, err
	}
	caps := map[csipb.NodeServiceCapability_RPC_Type]bool{}
	for _, one := range got.GetCapabilities() {
		caps[one.GetRpc().GetType()] = true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.known, x.caps = true, caps
	return caps[c], nil
}
