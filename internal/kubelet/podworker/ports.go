package podworker

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/admit"
	"github.com/gantry-project/gantry/internal/kubelet/allocation"
	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/kubelet/metrics"
	"github.com/gantry-project/gantry/internal/kubelet/podactions"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
	"github.com/gantry-project/gantry/internal/kubelet/probe"
	"github.com/gantry-project/gantry/internal/kubelet/prober"
	"github.com/gantry-project/gantry/internal/reason"
)

// RuntimeCache shows what the runtime has; pleg.PLEG is one.
type RuntimeCache interface {
	GetPodStatus(ctx context.Context, uid types.UID) (podplan.Observed, error)
}

// Actions carries out actions; podactions.Executor does.
type Actions interface {
	// Do performs one action. Errors are *reason.Refusal or wrap one.
	Do(ctx context.Context, j podactions.Job, a podplan.Action) error
	// Refresh updates volumes whose content follows API objects.
	Refresh(ctx context.Context, pod *v1.Pod) error
	// Forget forgets a Pod that is gone.
	Forget(uid types.UID)
}

// StatusManager brings statuses to the API; statusmanager.Manager is one.
type StatusManager interface {
	// SetPodStatus has the status written, when it differs from what the API has.
	SetPodStatus(pod *v1.Pod, status v1.PodStatus)
	// DeletePod deletes the Pod from the API after its last status, with grace 0 and its uid as
	// precondition.
	DeletePod(pod *v1.Pod)
	// RemoveStatus forgets a Pod that is gone.
	RemoveStatus(uid types.UID)
}

// ProbeManager probes containers; prober.Manager is one.
type ProbeManager interface {
	SyncPod(pod *v1.Pod, podIP string, running []prober.Running, end prober.End)
	Health(k probe.Key) (v probe.Health, ok bool)
	Forget(uid types.UID)
}

// Resources gives Pods what only one Pod can have: devices, CPUs of their own. Admit has given it
// to a Pod that comes.
type Resources interface {
	// AllocateDevices has device plugins prepare what the Pod was given, and takes it back when
	// they do not; the refusal is why. It may wait for a plugin until ctx ends.
	AllocateDevices(ctx context.Context, pod *v1.Pod) *reason.Refusal
	// ResourcesStatus is allocatedResourcesStatus of the Pod's containers, by name.
	ResourcesStatus(pod *v1.Pod) map[string][]v1.ResourceStatus
	// HoldsClaims tells whether drivers have to undo something for the Pod (UnprepareResources)
	// before it is shown to have ended.
	HoldsClaims(uid types.UID) bool
}

// Deps is what workers work with.
type Deps struct {
	Runtime  RuntimeCache
	Actions  Actions
	Statuses StatusManager
	Probes   ProbeManager
	// a nil refusal lets the Pod in, once the victims have ended
	Admit func(pod *v1.Pod, others []*v1.Pod) (victims []*v1.Pod, refusal *reason.Refusal)
	// nil: there is nothing that only one Pod can have
	Resources   Resources
	Resize      func(r admit.Resize, others []*v1.Pod) *reason.Refusal // nil: grant it
	Allocations allocation.Store
	Node        func() podstatus.Node
	Events      *events.Recorder
	Journal     journal.Sink
	Limits      podplan.Limits
	// each Pod is decided on again that often, and half as long at most, when no event comes about
	// it (syncFrequency); 0: never
	ResyncInterval time.Duration
	Readings
	Metrics *metrics.Metrics // counts what is admitted and resized; may be nil
}

// Readings are what is measured of a Pod or told of it; nil: nothing is known.
type Readings struct {
	Memory       func(pod *v1.Pod) journal.Memory                      // what the Pod has taken
	VolumeHealth func(types.UID) map[string][]v1.VolumeHealthCondition // what CSI drivers report, by volume's name
	// whether the runtime can do what mounts that are read-only if possible to their end ask for
	RecursiveReadOnly func(pod *v1.Pod) bool
}
