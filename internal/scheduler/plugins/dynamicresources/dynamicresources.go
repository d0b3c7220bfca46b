// Package dynamicresources keeps Pods that need resource claims waiting: allocating devices is not served, and such a Pod must not be bound without them.
//
// Chapter 3, judged. For all other Pods it says what upstream's plugin says: there is no claim that could be deallocated.
// Pure.
package dynamicresources

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/place"
)

// Name of the plugin.
const Name = "DynamicResources"

// Plugin is the judge.
type Plugin struct{}

// New makes the judge.
func New() *Plugin { return &Plugin{} }

var (
	_ framework.PreFilterPlugin   = (*Plugin)(nil)
	_ framework.PostFilterPlugin  = (*Plugin)(nil)
	_ framework.EnqueueExtensions = (*Plugin)(nil)
	_ framework.SignPlugin        = (*Plugin)(nil)
)

// Name is Name.
func (*Plugin) Name() string { return Name }

// PreFilter refuses Pods with claims.
func (*Plugin) PreFilter(_ context.Context, _ framework.CycleState, p *v1.Pod, _ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	if len(p.Spec.ResourceClaims) == 0 {
		return nil, framework.NewStatus(framework.Skip)
	}
	return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf("cannot allocate resource claim %q: this scheduler does not allocate devices", p.Spec.ResourceClaims[0].Name))
}

// PreFilterExtensions has none.
func (*Plugin) PreFilterExtensions() framework.PreFilterExtensions { return nil }

// PostFilter has no claim to free. When an earlier plugin's PreFilter ended the cycle, so that this one's was not asked, upstream finds no note of its own and says
// that: it ends up in the Pod's condition ("… not found. not found") and keeps preemption, which could not help, from being tried.
func (*Plugin) PostFilter(_ context.Context, _ framework.CycleState, _ *v1.Pod, statuses framework.NodeToStatusReader) (*framework.PostFilterResult, *framework.Status) {
	if s, ok := statuses.(*place.NodeStatuses); ok && slices.Contains(s.Unasked, Name) {
		return nil, framework.AsStatus(framework.ErrNotFound)
	}
	return nil, framework.NewStatus(framework.Unschedulable, "no new claims to deallocate")
}

// EventsToRegister wakes for nothing: no event helps.
func (*Plugin) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return nil, nil
}

// SignPod refuses Pods with claims.
func (*Plugin) SignPod(_ context.Context, p *v1.Pod) ([]framework.SignFragment, *framework.Status) {
	if len(p.Spec.ResourceClaims) > 0 {
		return nil, framework.NewStatus(framework.Unschedulable, "resource claims are not signed")
	}
	return nil, nil
}
