package podworker

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/admit"
	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/kubelet/metrics"
	"github.com/gantry-project/gantry/internal/kubelet/podexec"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
	"github.com/gantry-project/gantry/internal/kubelet/probe"
	"github.com/gantry-project/gantry/internal/kubelet/probe/ask"
	"github.com/gantry-project/gantry/internal/reason"
)

// Looker sees the runtime; observe.Watcher is one.
type Looker interface {
	Look(ctx context.Context, uid types.UID) (podplan.Observed, error)
}

// Hands carry out actions; podexec.Hands are some.
type Hands interface {
	// Do performs one action. Errors are *reason.Refusal or wrap one.
	Do(ctx context.Context, j podexec.Job, a podplan.Action) error
	// Refresh brings volumes up to date whose content follows API objects.
	Refresh(ctx context.Context, pod *v1.Pod) error
	// Forget drops what the hands remember of a Pod that is gone.
	Forget(uid types.UID)
}

// Statuses take statuses to the API; patch.Writer is one.
type Statuses interface {
	// Set makes the status known; it is written when it differs from what the API has.
	Set(pod *v1.Pod, status v1.PodStatus)
	// Finish deletes the Pod from the API after its last status, with grace 0 and its uid as precondition.
	Finish(pod *v1.Pod)
	// Drop forgets a Pod that is gone.
	Drop(uid types.UID)
}

// Grants keep what resizes granted over restarts of the kubelet; podexec.Ledger does.
type Grants interface {
	Load(uid types.UID) (g podexec.Grant, ok bool, err error)
	Save(uid types.UID, g podexec.Grant) error
}

// Prober asks containers how they are; ask.Asker is one.
type Prober interface {
	Sync(pod *v1.Pod, podIP string, running []ask.Running)
	Verdict(k probe.Key) (v probe.Verdict, ok bool)
	Forget(uid types.UID)
}

// Deps is what workers work with.
type Deps struct {
	Look     Looker
	Hands    Hands
	Statuses Statuses
	Probes   Prober
	Admit    func(pod *v1.Pod, others []*v1.Pod) (victims []*v1.Pod, no *reason.Refusal) // no refusal: let in, once the victims have ended
	Resize   func(r admit.Resize, others []*v1.Pod) *reason.Refusal                      // nil: grant it
	Grants   Grants
	Node     func() podstatus.Node
	Events   *events.Recorder
	Journal  journal.Sink
	Limits   podplan.Limits
	Every    time.Duration                              // each Pod is decided on again that often, and half as long at most, when nothing is heard of it (syncFrequency); 0: never
	Memory   func(pod *v1.Pod) journal.Memory           // what the Pod has taken; nil: not known
	Meter    *metrics.Metrics                           // counts what is admitted and resized; nil: nobody counts
	Worked   func(operation string, took time.Duration) // told of each round: create, sync, terminating, terminated; nil: nobody counts
}
