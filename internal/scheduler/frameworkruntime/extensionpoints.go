package frameworkruntime

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"
)

// maxPermitWait bounds how long a Permit plugin can make a Pod wait.
const maxPermitWait = 15 * time.Minute

// PodCycle is a Pod with its node and cycle state, for the extension points after Score.
type PodCycle struct {
	State framework.CycleState
	Pod   *v1.Pod
	Node  string
}

// PermitWait is why and how long a Permit plugin makes a Pod wait.
type PermitWait struct {
	Plugin  string
	Timeout time.Duration
	Message string // may be empty
}

// runPlugins runs the plugins of an extension point in order until stop says that a status ends it;
// it names the plugin in that status.
func runPlugins[P framework.Plugin](clock func(string) func(*framework.Status), list []P,
	call func(P) *framework.Status, stop func(*framework.Status) bool) *framework.Status {
	for _, pl := range list {
		end := func(*framework.Status) {}
		if clock != nil {
			end = clock(pl.Name())
		}
		s := validCode(recoverStatus(pl.Name(), func() *framework.Status { return call(pl) }))
		end(s)
		if stop(s) {
			if s != nil && s.Plugin() != pl.Name() {
				s.SetPlugin(pl.Name())
			}
			return s
		}
	}
	return nil
}

// isFailure ends runPlugins at the first status that is not a success.
func isFailure(s *framework.Status) bool { return !s.IsSuccess() }

// asStatus keeps a rejection and wraps any other status as an error of the point.
func asStatus(s *framework.Status, point string) *framework.Status {
	if s.IsSuccess() || s.IsRejected() {
		return s
	}
	return framework.AsStatus(fmt.Errorf("running %s plugin %q: %w", point, s.Plugin(),
		successOrFailure(s).AsError())).WithPlugin(s.Plugin())
}

// RunPreEnqueuePlugins tells whether a Pod may enter the queue; a status that is not a success
// gates it. The scheduler's lock is held.
func (p *Profile) RunPreEnqueuePlugins(ctx context.Context, pod *v1.Pod) *framework.Status {
	if hook := p.Handle.deps.Hooks.ObservePoint; hook != nil {
		defer func(began time.Time) {
			// a gated Pod counts as success, as upstream has it
			hook(PointDuration{Profile: p.Name, Point: "PreEnqueue", Took: time.Since(began)})
		}(time.Now())
	}
	return runPlugins(nil, p.preEnqueue, func(pl framework.PreEnqueuePlugin) *framework.Status {
		s, broken := callPlugin(p, pl.Name(), func() *framework.Status { return pl.PreEnqueue(ctx, pod) })
		if broken != nil {
			return broken
		}
		return s
	}, isFailure)
}

// HasPostFilterPlugins tells whether the profile has PostFilter plugins.
func (p *Profile) HasPostFilterPlugins() bool { return len(p.postFilter) > 0 }

// RunPostFilterPlugins runs PostFilter for a Pod that fits nowhere. The first plugin that succeeds
// ends it; otherwise the reasons of all are joined.
func (p *Profile) RunPostFilterPlugins(ctx context.Context, c PodCycle,
	statuses framework.NodeToStatusReader) (*framework.PostFilterResult, *framework.Status) {
	var (
		result  *framework.PostFilterResult
		reasons []string
		first   string
		helped  bool
	)
	end := runPlugins(p.pluginTimer("PostFilter", c.State), p.postFilter,
		func(pl framework.PostFilterPlugin) *framework.Status {
			type results struct {
				r *framework.PostFilterResult
				s *framework.Status
			}
			answer, broken := callPlugin(p, pl.Name(), func() results {
				r, s := pl.PostFilter(ctx, c.State, c.Pod, statuses)
				return results{r, s}
			})
			if broken != nil {
				return broken
			}
			r, s := answer.r, answer.s
			helped = helped || s.IsSuccess()
			if s.IsSuccess() || s.Code() == framework.UnschedulableAndUnresolvable ||
				r != nil && r.NominatingInfo != nil && r.Mode() != framework.ModeNoop {
				result = r
			}
			if s.Code() == framework.Unschedulable {
				reasons = append(reasons, s.Reasons()...)
				if first == "" {
					first = pl.Name()
				}
			}
			return s
		}, func(s *framework.Status) bool { return s.Code() != framework.Unschedulable })
	switch {
	case end != nil && !end.IsSuccess() && !end.IsRejected():
		// as it is: upstream puts it into the Pod's condition
		return nil, framework.AsStatus(successOrFailure(end).AsError()).WithPlugin(end.Plugin())
	case helped || end != nil || first == "":
		return result, end
	}
	return result, framework.NewStatus(framework.Unschedulable, reasons...).WithPlugin(first)
}

// RunReservePluginsReserve has plugins reserve what they keep for the Pod.
func (p *Profile) RunReservePluginsReserve(ctx context.Context, c PodCycle) *framework.Status {
	return p.observePoint("Reserve", func() *framework.Status {
		return asStatus(runPlugins(p.pluginTimer("Reserve", c.State), p.reserve,
			func(pl framework.ReservePlugin) *framework.Status {
				s, broken := callPlugin(p, pl.Name(),
					func() *framework.Status { return pl.Reserve(ctx, c.State, c.Pod, c.Node) })
				if broken != nil {
					return broken
				}
				return s
			}, isFailure), "Reserve")
	})
}

// RunReservePluginsUnreserve takes all reservations back, in reverse order. It cannot fail.
func (p *Profile) RunReservePluginsUnreserve(ctx context.Context, c PodCycle) {
	p.observePoint("Unreserve", func() *framework.Status {
		p.runReservePluginsUnreserve(ctx, c)
		return nil
	})
}

func (p *Profile) runReservePluginsUnreserve(ctx context.Context, c PodCycle) {
	for i := len(p.reserve) - 1; i >= 0; i-- {
		pl := p.reserve[i]
		// the error is in the log; the other plugins unreserve all the same
		_, _ = callPlugin(p, pl.Name(), func() any {
			pl.Unreserve(ctx, c.State, c.Pod, c.Node)
			return nil
		})
	}
}

// RunPermitPlugins tells whether the Pod may be bound. When plugins want it to wait it becomes a
// waiting Pod, for which WaitOnPermit blocks.
func (p *Profile) RunPermitPlugins(ctx context.Context, c PodCycle) *framework.Status {
	return p.observePoint("Permit", func() *framework.Status { return p.runPermitPlugins(ctx, c) })
}

// runPermitPlugins asks all plugins, unless one refuses. Where some want to wait, the Pod becomes a
// waiting Pod with each one's timeout, at most maxPermitWait.
func (p *Profile) runPermitPlugins(ctx context.Context, c PodCycle) *framework.Status {
	waits, why := map[string]time.Duration{}, map[string]string{}
	s := runPlugins(p.pluginTimer("Permit", c.State), p.permit, func(pl framework.PermitPlugin) *framework.Status {
		type results struct {
			s *framework.Status
			d time.Duration
		}
		answer, broken := callPlugin(p, pl.Name(), func() results {
			s, d := pl.Permit(ctx, c.State, c.Pod, c.Node)
			return results{s, d}
		})
		if broken != nil {
			return broken
		}
		s, d := answer.s, answer.d
		if s.IsWait() {
			waits[pl.Name()], why[pl.Name()] = min(d, maxPermitWait), s.Message()
			return nil
		}
		return s
	}, isFailure)
	if s == nil && len(waits) > 0 {
		p.Handle.deps.WaitingPods.Add(c.Pod, waits)
		if hook := p.Handle.deps.Hooks.WaitingOnPermit; hook != nil {
			for _, name := range slices.Sorted(maps.Keys(waits)) {
				hook(c, PermitWait{Plugin: name, Timeout: waits[name], Message: why[name]})
			}
		}
	}
	return asStatus(s, "Permit")
}

// WaitOnPermit blocks until a waiting Pod is allowed (nil), rejected, or its time is over; nil at
// once for a Pod that does not wait.
func (p *Profile) WaitOnPermit(ctx context.Context, pod *v1.Pod) *framework.Status {
	s := p.observePermitWait(pod, func() *framework.Status { return p.Handle.deps.WaitingPods.Wait(ctx, pod) })
	if s.IsSuccess() || s.IsRejected() {
		return s
	}
	return framework.AsStatus(fmt.Errorf("waiting on permit for pod: %w", s.AsError())).WithPlugin(s.Plugin())
}

// RunPreBindPlugins prepares what a binding needs and blocks until it is done. Plugins whose
// PreBindPreFlight allows it run in parallel with their neighbours.
func (p *Profile) RunPreBindPlugins(ctx context.Context, c PodCycle) *framework.Status {
	return p.observePoint("PreBind", func() *framework.Status { return p.runPreBindPlugins(ctx, c) })
}

// runPreBindPlugins runs the plugins in order, neighbours that allow it side by side; the first
// failure ends it.
func (p *Profile) runPreBindPlugins(ctx context.Context, c PodCycle) *framework.Status {
	if s := p.runPreBindPreFlights(ctx, c); !s.IsSuccess() {
		return s
	}
	skip, parallel := c.State.GetSkipPreBindPlugins(), c.State.GetParallelPreBindPlugins()
	for i := 0; i < len(p.preBind); {
		group := p.preBind[i : i+1]
		for j := i + 1; j < len(p.preBind) && parallel.Has(p.preBind[i].Name()) &&
			parallel.Has(p.preBind[j].Name()); j++ {
			group = p.preBind[i : j+1]
		}
		if s := p.runPreBindInParallel(ctx, c, group, skip); !s.IsSuccess() {
			return asStatus(s, "PreBind")
		}
		i += len(group)
	}
	return nil
}

// runPreBindPreFlights asks each plugin whether it has something to do for the Pod and may run in
// parallel, and writes both into the cycle state.
func (p *Profile) runPreBindPreFlights(ctx context.Context, c PodCycle) (end *framework.Status) {
	skip, parallel := sets.Set[string]{}, sets.Set[string]{}
	if hook := p.Handle.deps.Hooks.ObservePoint; hook != nil {
		defer func(began time.Time) {
			code := end.Code()
			if end.IsSuccess() && len(skip) == len(p.preBind) {
				code = framework.Skip
			}
			hook(PointDuration{Profile: p.Name, Point: "PreBindPreFlight", Code: code, Took: time.Since(began)})
		}(time.Now())
	}
	s := runPlugins(nil, p.preBind, func(pl framework.PreBindPlugin) *framework.Status {
		r, s := pl.PreBindPreFlight(ctx, c.State, c.Pod, c.Node)
		if r != nil && r.AllowParallel {
			parallel.Insert(pl.Name())
		}
		if s.IsSkip() {
			skip.Insert(pl.Name())
			return nil
		}
		return s
	}, isFailure)
	c.State.SetSkipPreBindPlugins(skip)
	c.State.SetParallelPreBindPlugins(parallel)
	return asStatus(s, "PreBindPreFlight")
}

// WaitsBeforeBind tells whether the binding of a Pod will take time: it waits at Permit, or a
// plugin has something to prepare in PreBind.
func (p *Profile) WaitsBeforeBind(ctx context.Context, c PodCycle) bool {
	return p.Handle.deps.WaitingPods.get(c.Pod.UID) != nil || slices.ContainsFunc(p.preBind,
		func(pl framework.PreBindPlugin) bool {
			// a plugin that panics here runs again in RunPreBindPlugins
			return recoverStatus(pl.Name(), func() *framework.Status {
				_, s := pl.PreBindPreFlight(ctx, c.State, c.Pod, c.Node)
				return s
			}).IsSuccess()
		})
}

// runPreBindInParallel runs a group of plugins at the same time, but for those in skip. A failure
// cancels the others; the status is the first failure in the order of the profile.
func (p *Profile) runPreBindInParallel(ctx context.Context, c PodCycle, group []framework.PreBindPlugin,
	skip sets.Set[string]) *framework.Status {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make([]*framework.Status, len(group))
	clock := p.pluginTimer("PreBind", c.State)
	var wg sync.WaitGroup
	for i, pl := range group {
		if skip.Has(pl.Name()) {
			continue
		}
		wg.Go(func() {
			if clock != nil {
				end := clock(pl.Name())
				defer func() { end(results[i]) }()
			}
			if results[i] = validCode(recoverStatus(pl.Name(),
				func() *framework.Status { return pl.PreBind(ctx, c.State, c.Pod, c.Node) })); !results[i].IsSuccess() {
				results[i].SetPlugin(pl.Name())
				cancel()
			}
		})
	}
	wg.Wait()
	for _, s := range results {
		if !s.IsSuccess() {
			return s
		}
	}
	return nil
}

// RunPreFilterExtensionAddPod has PreFilter plugins count other in state, as a Pod that a
// simulation adds to the node. Plugins that skip Filter for p are left out. The first failure comes
// back as an Error status that names the plugin; success is nil. state is written to: one goroutine
// at a time.
func (h *Handle) RunPreFilterExtensionAddPod(ctx context.Context, state framework.CycleState, p *v1.Pod,
	other framework.PodInfo, n framework.NodeInfo) *framework.Status {
	return h.runPreFilterExtensions(state, "AddPod", func(e framework.PreFilterExtensions) *framework.Status {
		return e.AddPod(ctx, state, p, other, n)
	})
}

// RunPreFilterExtensionRemovePod is the same for a Pod that a simulation takes off the node.
func (h *Handle) RunPreFilterExtensionRemovePod(ctx context.Context, state framework.CycleState, p *v1.Pod,
	other framework.PodInfo, n framework.NodeInfo) *framework.Status {
	return h.runPreFilterExtensions(state, "RemovePod", func(e framework.PreFilterExtensions) *framework.Status {
		return e.RemovePod(ctx, state, p, other, n)
	})
}

func (h *Handle) runPreFilterExtensions(state framework.CycleState, what string,
	do func(framework.PreFilterExtensions) *framework.Status) *framework.Status {
	s := runPlugins(nil, h.profile.Plugins.PreFilter, func(pl framework.PreFilterPlugin) *framework.Status {
		if ext := pl.PreFilterExtensions(); ext != nil && !state.GetSkipFilterPlugins().Has(pl.Name()) {
			return do(ext)
		}
		return nil
	}, isFailure)
	if s.IsSuccess() {
		return nil
	}
	return framework.AsStatus(fmt.Errorf("running %s on PreFilter plugin %q: %w", what, s.Plugin(), s.AsError()))
}

// RunReservePluginsReserve is for plugins that place other Pods: it runs the profile's Reserve
// plugins in order for the Pod on the node of that name. The first that fails ends it, and its
// status comes back; the caller unreserves. Success is nil.
func (h *Handle) RunReservePluginsReserve(ctx context.Context, state framework.CycleState, p *v1.Pod,
	node string) *framework.Status {
	return h.profile.RunReservePluginsReserve(ctx, PodCycle{state, p, node})
}

// RunReservePluginsUnreserve gives back what Reserve took: all Reserve plugins, last first, also
// those that had not reserved. It cannot fail.
func (h *Handle) RunReservePluginsUnreserve(ctx context.Context, state framework.CycleState, p *v1.Pod, node string) {
	h.profile.RunReservePluginsUnreserve(ctx, PodCycle{state, p, node})
}
