package manager

import (
	"context"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/checkpointmanager"
	"github.com/gantry-project/gantry/internal/kubelet/dra"
	"github.com/gantry-project/gantry/internal/kubelet/dra/plugin"
	"github.com/gantry-project/gantry/internal/kubelet/dra/state"
)

// ReconcilePeriod is how often claims of Pods that are gone are looked for.
const ReconcilePeriod = time.Minute

// API is what is read and written of the cluster.
type API interface {
	// GetClaim reads a ResourceClaim as it is now.
	GetClaim(ctx context.Context, namespace, name string) (*resourceapi.ResourceClaim, error)
	// DeleteSlices deletes this node's ResourceSlices, of one driver or, for "", of all.
	DeleteSlices(ctx context.Context, driver string) error
}

// Deps is what a Manager works with.
type Deps struct {
	Dir  string // of the checkpoint: the kubelet's directory
	API  API    // nil: there is no API server, and there are no claims
	Dial func(ctx context.Context, path string) (net.Conn, error)
	// Active tells whether a Pod may still use its claims: it has not ended, or it is not known yet
	// who it is.
	Active func(uid types.UID) bool
	// HealthChanged tells that a device of the Pod changed its health.
	HealthChanged func(uid types.UID)
	Metrics       Metrics
}

// Metrics counts; a nil function counts nothing.
type Metrics struct {
	// Operation is PrepareResources or UnprepareResources of one Pod.
	Operation func(name string, err error, took time.Duration)
	// Called is one call to a driver.
	Called func(driver, method string, err error, took time.Duration)
}

// claimKey is a claim's namespace and name.
type claimKey = types.NamespacedName

// Manager prepares claims. Make one with New.
type Manager struct {
	d       Deps
	drivers *plugin.Drivers

	mu     sync.Mutex
	claims map[claimKey]*dra.Claim
	health dra.Health
}

// New returns a Manager that knows what the checkpoint has. One that cannot be read is an error:
// devices may be prepared that nobody would know of.
func New(d Deps) (*Manager, error) {
	m := &Manager{d: d, claims: map[claimKey]*dra.Claim{}, health: dra.Health{}}
	raw, found, err := checkpointmanager.Read(m.d.Dir, state.File)
	if err == nil && !found {
		return m, nil
	}
	var list []state.ClaimInfoState
	if err == nil {
		list, err = state.Unmarshal(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("could not initialize checkpoint manager, please drain node and remove DRA state file "+
			"%s: %w",
			m.path(), err)
	}
	for _, s := range list {
		if s.PodUIDs == nil {
			s.PodUIDs = sets.New[string]()
		}
		if s.DriverState == nil {
			s.DriverState = map[string]state.DriverState{}
		}
		m.claims[claimKey{Namespace: s.Namespace, Name: s.ClaimName}] = &dra.Claim{ClaimInfoState: s}
	}
	return m, nil
}

func (m *Manager) path() string { return filepath.Join(m.d.Dir, state.File) }

// Start has drivers register until ctx ends, and claims undone whose Pods are gone. The function
// returned waits for the end.
func (m *Manager) Start(ctx context.Context) (handler *plugin.Drivers, wait func()) {
	deps := plugin.Deps{Dial: m.d.Dial, Health: m.healthReported, Called: m.d.Metrics.Called}
	if m.d.API != nil {
		deps.Wipe = m.wipe
	}
	drivers := plugin.New(ctx, deps)
	m.mu.Lock()
	m.drivers = drivers
	m.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.reconcileLoop(ctx)
	}()
	return drivers, func() { <-done; drivers.Wait() }
}

// driver is the client of a driver.
func (m *Manager) driver(name string) (*plugin.Driver, error) {
	m.mu.Lock()
	drivers := m.drivers
	m.mu.Unlock()
	if drivers == nil {
		return nil, fmt.Errorf("DRA driver %s is not registered", name)
	}
	return drivers.Get(name)
}

// wipe deletes ResourceSlices, and tries again until it has succeeded or ctx ends.
func (m *Manager) wipe(ctx context.Context, driver string) {
	for pause := time.Second; ctx.Err() == nil; pause = min(2*pause, 5*time.Minute) {
		err := m.d.API.DeleteSlices(ctx, driver)
		if err == nil {
			return
		}
		klog.FromContext(ctx).V(3).Info("Deleting ResourceSlice failed, retrying", "driverName", driver, "err", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// reconcileLoop undoes claims whose Pods are gone.
func (m *Manager) reconcileLoop(ctx context.Context) {
	tick := time.NewTicker(ReconcilePeriod)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		for _, uid := range m.users() {
			if m.d.Active(uid) {
				continue
			}
			if err := m.unprepare(ctx, uid); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Info("Unpreparing pod resources in reconcile loop failed, will retry",
					"podUID", uid,
					"err", err)
			}
		}
	}
}

// users are the Pods that claims name.
func (m *Manager) users() []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := map[types.UID]bool{}
	for _, c := range m.claims {
		for uid := range c.PodUIDs {
			all[types.UID(uid)] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Prepared is how many claims are prepared, all and by driver.
func (m *Manager) Prepared() (all int, byDriver map[string]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	byDriver = map[string]int{}
	for _, c := range m.claims {
		if !c.Prepared {
			continue
		}
		all++
		for driver := range c.DriverState {
			byDriver[driver]++
		}
	}
	return all, byDriver
}

// Holds tells whether claims were prepared for a Pod, or may have been: they have to be undone when
// it has stopped.
func (m *Manager) Holds(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.claims {
		if c.PodUIDs.Has(string(uid)) {
			return true
		}
	}
	return false
}

// save writes the checkpoint, whole or not at all. m.mu is held.
func (m *Manager) save() error {
	var list []state.ClaimInfoState
	keys := slices.SortedFunc(maps.Keys(m.claims), func(a, b claimKey) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
	for _, k := range keys {
		list = append(list, m.claims[k].ClaimInfoState)
	}
	raw, err := state.Marshal(list)
	if err != nil {
		return err
	}
	return checkpointmanager.Write(m.d.Dir, state.File, raw)
}

// CDIDevices are the names of the CDI devices that a container gets for its claims.
func (m *Manager) CDIDevices(p *v1.Pod, c *v1.Container) ([]string, error) {
	requests, err := dra.ContainerRequests(p, c)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for _, r := range requests {
		claim := m.claims[claimKey{Namespace: p.Namespace, Name: r.Claim}]
		if claim == nil {
			return nil, fmt.Errorf("internal error: unable to get claim info for ResourceClaim %s in namespace %s",
				r.Claim,
				p.Namespace)
		}
		for _, name := range r.Names {
			for _, id := range claim.CDIDevices(name) {
				if !slices.Contains(out, id) {
					out = append(out, id)
				}
			}
		}
	}
	return out, nil
}
