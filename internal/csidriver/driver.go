package csidriver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Names that users see.
const (
	Name        = "local.csi.gantry.dev"
	TopologyKey = "topology.local.csi.gantry.dev/node"
)

// Options say where a driver works.
type Options struct {
	Dir      string // of the volumes
	NodeID   string // the node's name
	Endpoint string // of the CSI socket
	// Registration is the socket for the kubelet, in its plugins_registry; empty registers nowhere.
	Registration string
	Version      string
}

// Driver is one node's driver.
type Driver struct {
	csipb.UnimplementedIdentityServer
	csipb.UnimplementedControllerServer
	csipb.UnimplementedNodeServer
	o     Options
	store *store
	locks keyLocks // by volume: calls about one follow each other
	// by volume/ID and snapshot/ID: one is copied, or staged, unstaged, made bigger or deleted;
	// taken after locks and before store.mu
	sources keyLocks
	running context.Context // ends with the driver; copies do
	stop    context.CancelFunc
}

// acquireLock takes the lock of a volume or snapshot and that of a source.
func (d *Driver) acquireLock(ctx context.Context, name, source string) (release func(), err error) {
	unlock, err := d.locks.lock(ctx, name)
	if err != nil {
		return nil, err
	}
	unlockSource, err := d.sources.lock(ctx, source)
	if err != nil {
		unlock()
		return nil, err
	}
	return func() { unlockSource(); unlock() }, nil
}

// New opens the directory of volumes.
func New(o Options) (*Driver, error) {
	if o.NodeID == "" || o.Dir == "" || o.Endpoint == "" {
		return nil, errors.New("csidriver: Dir, NodeID and Endpoint are required")
	}
	s, err := openStore(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("csidriver: %w", err)
	}
	quotas, why := detectQuotas(s.volumes.dir)
	s.quotas = quotas
	klog.Background().Info("Sizes of volumes of type directory", "driver", Name, "enforced", quotas != nil, "why not",
		why)
	d := &Driver{o: o, store: s}
	d.running, d.stop = context.WithCancel(context.Background())
	return d, nil
}

// Run serves until ctx ends. Volumes stay mounted then. What an earlier process left half made is
// removed first, and a file system that it left frozen goes on. Two that run over one directory
// would take each other's for left over: the second is refused.
func (d *Driver) Run(ctx context.Context) error {
	alone, err := d.store.lockDir()
	if err != nil {
		return fmt.Errorf("csidriver: %w", err)
	}
	defer alone.Close()
	if err := d.store.recover(); err != nil {
		return fmt.Errorf("csidriver: %w", err)
	}
	// Calls end before Run does: one may hold a file system frozen.
	s := grpc.NewServer(grpc.UnaryInterceptor(d.intercept), grpc.WaitForHandlers(true))
	csipb.RegisterIdentityServer(s, d)
	csipb.RegisterControllerServer(s, d)
	csipb.RegisterNodeServer(s, d)
	served := make(chan error, 2)
	serve := func(s *grpc.Server, path string) error {
		l, err := listen(path)
		if err != nil {
			return err
		}
		go func() { served <- s.Serve(l) }()
		return nil
	}
	defer s.Stop()
	defer d.stop()
	if err := serve(s, d.o.Endpoint); err != nil {
		return fmt.Errorf("csidriver: %w", err)
	}
	defer os.Remove(d.o.Endpoint)
	if path := d.o.Registration; path != "" {
		r := grpc.NewServer()
		registerapi.RegisterRegistrationServer(r, &registration{endpoint: d.o.Endpoint})
		defer r.Stop()
		if err := serve(r, path); err != nil {
			return fmt.Errorf("csidriver: %w", err)
		}
		defer os.Remove(path)
	}
	select {
	case err := <-served:
		return fmt.Errorf("csidriver: %w", err)
	case <-ctx.Done():
		return nil
	}
}

// listen makes the socket, in place of one that an earlier process left.
func listen(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", path)
}

// intercept logs what failed and turns errors of the system into codes of gRPC.
func (d *Driver) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler) (any, error) {
	startedAt := time.Now()
	out, err := handle(ctx, req)
	if err == nil {
		return out, nil
	}
	if _, ok := status.FromError(err); !ok {
		err = status.Error(codeOf(err), err.Error())
	}
	if status.Code(err) != codes.Unimplemented {
		klog.FromContext(ctx).Info("A CSI call failed", "driver", Name, "call", info.FullMethod, "err", err, "took",
			time.Since(startedAt))
	}
	return out, err
}

// registration tells the kubelet of the driver.
type registration struct {
	registerapi.UnimplementedRegistrationServer
	endpoint string
}

func (r *registration) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{Type: registerapi.CSIPlugin, Name: Name, Endpoint: r.endpoint,
		SupportedVersions: []string{"1.0.0"}}, nil
}

func (r *registration) NotifyRegistrationStatus(ctx context.Context,
	s *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	if !s.PluginRegistered {
		klog.FromContext(ctx).Info("The kubelet does not register the CSI driver, it tries again", "driver", Name,
			"err",
			s.Error)
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}
