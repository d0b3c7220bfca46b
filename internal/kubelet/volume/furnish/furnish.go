package furnish

import (
	"context"
	"maps"
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

// Recorder takes Kubernetes events; record.EventRecorder is one.
type Recorder interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

// Cache is the object cache the Furnisher keeps filled: what a held Pod refers to is watched until it is dropped. volume/objects implements it.
type Cache interface {
	volume.Objects
	Hold(pod *v1.Pod)
	Drop(uid types.UID)
}

// Deps is what a Furnisher works with.
type Deps struct {
	Root     string // the kubelet's directory, /var/lib/kubelet upstream
	Types    []volume.Type
	Objects  Cache
	Mounts   volume.Mounts
	Recorder Recorder
	Journal  journal.Sink
	Node     func(pod *v1.Pod) volume.NodeView
	Slow     time.Duration   // after which a step is said to hang; 0 is ten seconds
	Changed  func(types.UID) // a volume of the Pod has to be refreshed though no object changed: a token grows old; must not block
}

// Furnisher gives Pods their volumes.
type Furnisher struct {
	d Deps

	mu   sync.Mutex
	pods map[types.UID]*state
}

// state is what is known of one Pod's volumes. It is held for the length of a call, so that calls for one Pod follow each other.
type state struct {
	ref   journal.Ref
	busy  chan struct{} // a place for one
	ready map[string]volume.Mounted
	told  map[string]string // last failure per volume that became a fact
	since time.Time         // of the first failure in a row, or of the last event about all of them
	again *time.Timer
	shown map[string]volume.Mounted // a copy of ready, guarded by Furnisher.mu
}

// Mounted are the volumes of the Pod that are ready, by name; also while a step of one of them hangs.
func (f *Furnisher) Mounted(uid types.UID) map[string]Mounted {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.pods[uid]; s != nil {
		return s.shown // never changed, only replaced
	}
	return nil
}

// show makes what is ready known. The caller holds the state.
func (f *Furnisher) show(s *state) {
	shown := maps.Clone(s.ready)
	f.mu.Lock()
	defer f.mu.Unlock()
	s.shown = shown
}

func (s *state) lock(ctx context.Context) error {
	select {
	case s.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *state) unlock() { <-s.busy }

// New returns a Furnisher.
func New(d Deps) *Furnisher { return &Furnisher{d: d, pods: map[types.UID]*state{}} }

// Objects is the cache of the ConfigMaps and Secrets that held Pods refer to; environment variables are built from it too.
func (f *Furnisher) Objects() volume.Objects { return f.d.Objects }

// SubPath is one volumeMount with a subPath.
type SubPath struct {
	Pod       *v1.Pod
	Container string
	Index     int // of the volumeMount
	Volume    Mounted
	Path      string // below the volume, after expansion
}
