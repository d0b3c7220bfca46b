package volumehealth

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// Drivers are asked; csi.Drivers is one. says is false of a driver that does not serve the call.
type Drivers interface {
	Names() []string
	VolumeHealth(ctx context.Context, v volume.VolumeToHealthCheck) (c []v1.VolumeHealthCondition, says bool, err error)
	StorageHealth(ctx context.Context, driver string) (c []storagev1.StorageHealthCondition, says bool, err error)
}

// Deps is what a Manager works with. Fields without a note are required; functions must not block.
type Deps struct {
	Drivers Drivers
	Volumes func() []volume.VolumeToHealthCheck
	Changed func(types.UID) // what is known of a volume of the Pod has changed
	// UpdateStorageHealth writes a driver's conditions into the CSINode; it may wait for the API
	UpdateStorageHealth func(ctx context.Context, driver string, c []storagev1.StorageHealthCondition) error
	Reported            func(driver string, c []storagev1.StorageHealthCondition) // for the metric
	Interval            time.Duration                                             // 0 and less is a minute
}

// Manager knows how volumes are. Make it with New.
type Manager struct {
	d Deps

	mu      sync.Mutex
	known   map[types.UID]map[string][]v1.VolumeHealthCondition
	asking  map[string]bool // by driver and what it is asked: it has not answered the last round
	pending sync.WaitGroup
}

// New returns a Manager; Run makes it ask.
func New(d Deps) *Manager {
	if d.Interval <= 0 {
		d.Interval = time.Minute
	}
	return &Manager{d: d, known: map[types.UID]map[string][]v1.VolumeHealthCondition{}, asking: map[string]bool{}}
}

// Run asks at once and then in each interval, until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	tick := time.NewTicker(m.d.Interval)
	defer tick.Stop()
	for {
		m.round(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			m.pending.Wait()
			return
		}
	}
}

// Of is what is known of a Pod's volumes, by name; a volume without conditions is well, one that is
// not there is unknown. It must not be changed.
func (m *Manager) Of(uid types.UID) map[string][]v1.VolumeHealthCondition {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known[uid]
}

// round begins to ask all drivers that have answered before.
func (m *Manager) round(ctx context.Context) {
	volumes := map[string][]volume.VolumeToHealthCheck{}
	pods := map[types.UID]bool{}
	for _, v := range m.d.Volumes() {
		volumes[v.Driver] = append(volumes[v.Driver], v)
		pods[v.PodUID] = true
	}
	m.mu.Lock()
	for uid := range m.known {
		if !pods[uid] {
			delete(m.known, uid)
		}
	}
	m.mu.Unlock()
	for driver, list := range volumes {
		m.ask(driver+" volumes", func() { m.askVolumes(ctx, driver, list) })
	}
	for _, driver := range m.d.Drivers.Names() {
		m.ask(driver+" storage", func() { m.askStorage(ctx, driver) })
	}
}

// ask runs a question, unless the one of an earlier round still runs.
func (m *Manager) ask(what string, question func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asking[what] {
		return
	}
	m.asking[what] = true
	m.pending.Go(func() {
		question()
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.asking, what)
	})
}

func (m *Manager) askVolumes(ctx context.Context, driver string, list []volume.VolumeToHealthCheck) {
	for _, v := range list {
		conditions, says, err := m.d.Drivers.VolumeHealth(ctx, v)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			klog.FromContext(ctx).V(4).Info("NodeGetVolumeHealth failed; leaving previous conditions unchanged",
				"driver", driver, "podUID", v.PodUID, "volume", v.Name, "err", err)
		case !says:
			return
		case m.learn(v, conditions):
			m.d.Changed(v.PodUID)
		}
	}
}

// learn notes how a volume is, and tells whether that is new. Messages alone make nothing new.
func (m *Manager) learn(v volume.VolumeToHealthCheck, conditions []v1.VolumeHealthCondition) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, known := m.known[v.PodUID][v.Name]
	if known && podstatus.SameHealth(old, conditions) {
		return false
	}
	all := map[string][]v1.VolumeHealthCondition{v.Name: conditions}
	for name, c := range m.known[v.PodUID] {
		if name != v.Name {
			all[name] = c
		}
	}
	m.known[v.PodUID] = all // never changed, only replaced
	return true
}

func (m *Manager) askStorage(ctx context.Context, driver string) {
	conditions, says, err := m.d.Drivers.StorageHealth(ctx, driver)
	if err != nil {
		klog.FromContext(ctx).V(4).Info("NodeGetStorageHealth failed; leaving previous conditions unchanged",
			"driver", driver, "err", err)
	}
	if err != nil || !says || ctx.Err() != nil {
		return
	}
	m.d.Reported(driver, conditions)
	if err := m.d.UpdateStorageHealth(ctx, driver, conditions); err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Failed to update CSINode storage health", "driver", driver)
	}
}
