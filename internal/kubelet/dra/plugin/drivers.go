package plugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	drahealthv1 "k8s.io/kubelet/pkg/apis/dra-health/v1"
	drahealthv1alpha1 "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	drapbv1 "k8s.io/kubelet/pkg/apis/dra/v1"
	drapbv1beta1 "k8s.io/kubelet/pkg/apis/dra/v1beta1"
)

// Services that the kubelet can call, the newest first.
var (
	services       = []string{drapbv1.DRAPluginService, drapbv1beta1.DRAPluginService}
	healthServices = []string{drahealthv1.DRAResourceHealthService, drahealthv1alpha1.DRAResourceHealthService}
)

// WipingDelay is how long a driver may be away before its ResourceSlices are deleted.
const WipingDelay = 30 * time.Second

// Deps is what Drivers work with.
type Deps struct {
	Dial func(ctx context.Context, path string) (net.Conn, error)
	// Wipe deletes the ResourceSlices of this node, of one driver or, for "", of all. It tries
	// until it has succeeded or ctx ends. Nil: there is no API server.
	Wipe func(ctx context.Context, driver string)
	// Health takes a driver's reports about its devices; an error ends the stream.
	Health func(driver string, report *drahealthv1.NodeWatchResourcesResponse)
	// Called tells of each call, for metrics; may be nil
	Called func(driver, method string, err error, took time.Duration)
}

// Drivers are all that have registered. Make one with New.
type Drivers struct {
	d   Deps
	ctx context.Context

	mu      sync.Mutex
	drivers map[string][]*Driver          // by name, the newest last
	wiping  map[string]context.CancelFunc // deletions of ResourceSlices that wait or are under way
	wg      sync.WaitGroup
}

// New returns Drivers that work until ctx ends. Until drivers register, none of the node's devices
// can be prepared: all ResourceSlices are deleted.
func New(ctx context.Context, d Deps) *Drivers {
	s := &Drivers{d: d, ctx: ctx, drivers: map[string][]*Driver{}, wiping: map[string]context.CancelFunc{}}
	if d.Wipe != nil {
		s.wg.Go(func() { d.Wipe(ctx, "") })
	}
	return s
}

// Wait returns when everything has ended, after ctx has.
func (s *Drivers) Wait() { s.wg.Wait() }

// Get is the client of a driver: of several the newest that can be reached, else the newest. Its
// errors are upstream's.
func (s *Drivers) Get(name string) (*Driver, error) {
	if name == "" {
		return nil, errors.New("DRA driver name is empty")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.drivers[name]
	if len(list) == 0 {
		return nil, fmt.Errorf("DRA driver %s is not registered", name)
	}
	for _, d := range slices.Backward(list) {
		if d.connected {
			return d, nil
		}
	}
	return list[len(list)-1], nil
}

// ValidatePlugin refuses drivers that the kubelet cannot call. With the two methods below it is the
// plugin manager's Handler.
func (s *Drivers) ValidatePlugin(name, endpoint string, versions []string) error {
	if name == "" {
		return errors.New("DRA driver name is empty")
	}
	_, err := chosenService(name, endpoint, versions)
	return err
}

func chosenService(name, endpoint string, versions []string) (string, error) {
	refused := func(format string, args ...any) error {
		return fmt.Errorf("invalid supported gRPC versions of DRA driver plugin %s at endpoint %s: %w", name, endpoint,
			fmt.Errorf(format, args...))
	}
	if len(versions) == 0 {
		return "", refused("empty list of supported gRPC services (aka supported versions)")
	}
	for _, v := range versions { // the driver's order counts, as upstream has it
		if slices.Contains(services, v) {
			return v, nil
		}
	}
	return "", refused("none of services supported by the plugin (%q) are supported by the kubelet (%q)", versions,
		services)
}

// RegisterPlugin takes a driver in.
func (s *Drivers) RegisterPlugin(name, endpoint string, versions []string) error {
	service, err := chosenService(name, endpoint, versions)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.drivers[name], func(d *Driver) bool { return d.endpoint == endpoint }) {
		return fmt.Errorf("endpoint %s already registered for DRA driver plugin %s", endpoint, name)
	}
	d, err := s.dial(name, endpoint, service)
	if err != nil {
		return err
	}
	s.drivers[name] = append(s.drivers[name], d)
	s.wg.Go(func() { d.watch(func(connected bool) { s.setConnected(d, connected) }) })
	for _, h := range healthServices {
		if slices.Contains(versions, h) {
			s.wg.Go(func() { d.watchHealth(h, s.d.Health) })
			break
		}
	}
	s.syncWiping(name)
	return nil
}

// DeRegisterPlugin drops a driver whose registration socket is gone.
func (s *Drivers) DeRegisterPlugin(name, endpoint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.drivers[name], func(d *Driver) bool { return d.endpoint == endpoint })
	if i < 0 {
		return
	}
	s.drivers[name][i].close()
	if s.drivers[name] = slices.Delete(s.drivers[name], i, i+1); len(s.drivers[name]) == 0 {
		delete(s.drivers, name)
	}
	s.syncWiping(name)
}

func (s *Drivers) setConnected(d *Driver, connected bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.connected != connected {
		d.connected = connected
		s.syncWiping(d.name)
	}
}

// syncWiping has the ResourceSlices of a driver deleted that cannot be reached for WipingDelay.
// s.mu is held.
func (s *Drivers) syncWiping(name string) {
	usable := slices.ContainsFunc(s.drivers[name], func(d *Driver) bool { return d.connected })
	cancel, waits := s.wiping[name]
	switch {
	case usable && waits:
		cancel()
		delete(s.wiping, name)
	case !usable && !waits && s.d.Wipe != nil:
		ctx, cancel := context.WithCancel(s.ctx)
		s.wiping[name] = cancel
		s.wg.Go(func() {
			defer cancel()
			select {
			case <-time.After(WipingDelay):
				s.d.Wipe(ctx, name)
			case <-ctx.Done():
			}
		})
	}
}
