package frameworkruntime

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// ScheduleInput is what a Pod is scheduled from in the cycle under way, with the state that
// PreFilter has filled.
func (h *Handle) ScheduleInput(p *v1.Pod, state framework.CycleState) schedule.Input {
	in := schedule.Input{Pod: p, Snapshot: h.deps.Snapshot.Get(), Plugins: h.profile.Plugins, State: state,
		NominatedPodsForNode: h.NominatedPodsForNode, Parallel: h.deps.Parallelizer.ForEach, PickTie: h.deps.PickStart}
	if h.deps.Nominations == nil {
		return in
	}
	if in.NominatedNodes = h.deps.Nominations.NominatedNodes(); in.NominatedNodes == nil {
		in.NominatedPodsForNode = nil
	} else {
		in.Nominations = h.deps.Nominations
	}
	return in
}

// Hooks are those of Deps, for plugins that write to the API server.
func (h *Handle) Hooks() Hooks { return h.deps.Hooks }

// Go runs work with Hooks.Go.
func (h *Handle) Go(work func()) {
	if h.deps.Hooks.Go == nil {
		work()
		return
	}
	h.deps.Hooks.Go(work)
}

// AssignedPod gives a Pod as it is on a node now, more recent than any snapshot; nil for others.
// Only PreEnqueue plugins may call it.
func (h *Handle) AssignedPod(uid types.UID) *v1.Pod {
	if h.deps.Snapshot.AssignedPod == nil {
		return nil
	}
	return h.deps.Snapshot.AssignedPod(uid)
}

// Parallel runs do for 0..n-1 in parallel and returns when all are done.
func (h *Handle) Parallel(n int, do func(int)) { h.deps.Parallelizer.ForEach(n, do) }
