package furnish

import (
	"context"

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
}

// Furnisher gives Pods their volumes.
type Furnisher struct{ d Deps }

// New returns a Furnisher.
func New(d Deps) *Furnisher { return &Furnisher{d: d} }

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

// Ensure makes all volumes of the Pod ready and returns them by name. The error is a *reason.Refusal that names what is missing, in upstream's words.
func (f *Furnisher) Ensure(ctx context.Context, pod *v1.Pod) (map[string]Mounted, error) {
	return f.ensure(ctx, pod)
}

// Refresh brings volumes whose content follows API objects up to date, each at once for its readers.
func (f *Furnisher) Refresh(ctx context.Context, pod *v1.Pod) error { return f.refresh(ctx, pod) }

// Release takes the Pod's volumes away and removes its directory. It can be repeated.
func (f *Furnisher) Release(ctx context.Context, uid types.UID) error { return f.release(ctx, uid) }

// Orphans releases the directories of Pods that known does not have, and returns their uids.
func (f *Furnisher) Orphans(ctx context.Context, known func(types.UID) bool) ([]types.UID, error) {
	return f.orphans(ctx, known)
}

// Prepare returns the host path to mount for a subPath, opened without following symbolic links out of the volume and pinned by a bind mount that Release removes.
func (f *Furnisher) Prepare(ctx context.Context, s SubPath) (string, error) { return f.prepare(ctx, s) }
