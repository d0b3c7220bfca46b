package volumemanager

import (
	"cmp"
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
)

// Mounted is a volume ready for containers.
type Mounted = volume.Mounted

// Recorder takes Kubernetes events; client-go's record.EventRecorder is one.
type Recorder interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

// ObjectCache is the object cache the Manager keeps filled: what a held Pod refers to is watched
// until it is dropped. objectcache implements it.
type ObjectCache interface {
	volume.Objects
	RegisterPod(pod *v1.Pod)
	UnregisterPod(uid types.UID)
}

// SpecResolver finds what is behind a volume's claim; claim.Resolver does. Errors about claims are
// volume.Unprocessed.
type SpecResolver interface {
	CreateVolumeSpec(ctx context.Context, pod *v1.Pod, v *v1.Volume) (volume.Spec, error)
}

// Deps is what a Manager works with.
type Deps struct {
	Root          string // the kubelet's directory, /var/lib/kubelet upstream
	Plugins       volume.PluginMgr
	Specs         SpecResolver // what is behind claims
	Objects       ObjectCache
	Mounts        volume.Mounter
	Devices       volume.FileDevices // of raw volumes
	Recorder      Recorder
	Journal       journal.Sink
	Node          func(pod *v1.Pod) volume.NodeView
	BootID        string        // of the node; empty asks the kernel
	HangThreshold time.Duration // after which a step is said to hang; 0 is ten seconds
	// Reject ends a Pod for which the node has no room, as its status is to say it; must not block.
	// Nil: Pods wait
	Reject func(uid types.UID, reason, message string)
	// a volume of the Pod has to be refreshed though no object changed: a token grows old; must not
	// block
	Changed func(types.UID)
	// Operated is told of each operation that ended; must not block. Nil: nobody listens
	Operated func(volume.Operation)
}

// Manager gives Pods their volumes.
type Manager struct {
	d Deps

	mu   sync.Mutex
	pods map[types.UID]*podVolumes

	bootID  string
	actual  actualState
	mapping sync.Mutex // while files of raw volumes, and the directories of them, are made or removed
}

// podVolumes is what is known of one Pod's volumes. It is held for the length of a call, so that
// calls for one Pod follow each other.
type podVolumes struct {
	ref           journal.Ref
	locked        chan struct{} // a place for one
	ready         map[string]mountedVolume
	reported      map[string]string // last failure per volume that became a fact
	since         time.Time         // of the first failure in a row, or of the last event about all of them
	unprocessedAt time.Time         // of the last event about volumes that are not understood
	refreshTimer  *time.Timer
	published     map[string]volume.Mounted // a copy of ready, guarded by Manager.mu
	wanted        map[string]time.Time      // since when, by volume
	// attempted are volumes that a driver was asked for, by name; guarded by Manager.mu
	attempted map[string]volume.VolumeToHealthCheck
}

// MountedVolumes are the volumes of the Pod that are ready, by name; also while a step of one of
// them hangs.
func (f *Manager) MountedVolumes(uid types.UID) map[string]Mounted {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.pods[uid]; s != nil {
		return s.published // never changed, only replaced
	}
	return nil
}

// publish makes what is ready known. The caller holds the state.
func (f *Manager) publish(s *podVolumes) {
	shown := s.mounted()
	f.mu.Lock()
	defer f.mu.Unlock()
	s.published = shown
}

// mountedVolume is a volume that is ready, with what has to be known to look at it again.
type mountedVolume struct {
	volume.Mounted
	requiresRemount bool
	expands         bool // its plugin is a NodeExpandableVolumePlugin
	data            volume.VolumeData
}

// mounted is a copy of what is ready. The caller holds the state.
func (s *podVolumes) mounted() map[string]Mounted {
	out := make(map[string]Mounted, len(s.ready))
	for name, m := range s.ready {
		out[name] = m.Mounted
	}
	return out
}

func (s *podVolumes) lock(ctx context.Context) error {
	select {
	case s.locked <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *podVolumes) unlock() { <-s.locked }

// New returns a Manager.
func New(d Deps) *Manager {
	return &Manager{d: d, pods: map[types.UID]*podVolumes{}, bootID: cmp.Or(d.BootID, bootID()),
		actual: actualState{staged: map[volume.VolumeID]*stagedVolume{}}}
}

// Objects is the cache of the ConfigMaps and Secrets that held Pods refer to; environment variables
// are built from it too.
func (f *Manager) Objects() volume.Objects { return f.d.Objects }

// SubPath is one volumeMount with a subPath.
type SubPath struct {
	Pod       *v1.Pod
	Container string
	Index     int // of the volumeMount
	Volume    Mounted
	Path      string // below the volume, after expansion
}
