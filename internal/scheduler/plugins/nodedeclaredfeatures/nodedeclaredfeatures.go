// Package nodedeclaredfeatures refuses nodes whose kubelet does not declare a feature that the Pod
// needs (KEP-5328).
//
// Which features a Pod needs the library tells from its spec, for this release: a feature that
// every supported kubelet has needs no declaring. In: status.declaredFeatures by way of NodeInfo.
// Pure.
package nodedeclaredfeatures

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/reason"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

const (
	// Name of the plugin.
	Name = "NodeDeclaredFeatures"

	stateKey framework.StateKey = "PreFilter" + Name
)

// Plugin implements the extension points of this package.
type Plugin struct {
	framework *ndf.Framework
	release   *version.Version
}

// New makes the plugin of release 1.37.
func New() *Plugin {
	return &Plugin{framework: ndf.DefaultFramework, release: version.MajorMinor(1, 37)}
}

var (
	_ framework.PreFilterPlugin   = (*Plugin)(nil)
	_ framework.FilterPlugin      = (*Plugin)(nil)
	_ framework.EnqueueExtensions = (*Plugin)(nil)
	_ framework.SignPlugin        = (*Plugin)(nil)
	_ schedule.Explainer          = (*Plugin)(nil)
)

// Name is Name.
func (*Plugin) Name() string { return Name }

type preFilterState struct{ ndf.FeatureSet }

// Clone shares: nothing changes it.
func (n preFilterState) Clone() framework.StateData { return n }

// requiredFeatures is what the Pod needs; the library's one error is that of no release.
func (pl *Plugin) requiredFeatures(p *v1.Pod) ndf.FeatureSet {
	set, _ := pl.framework.InferForPodScheduling(&ndf.PodInfo{Spec: &p.Spec, Status: &p.Status}, pl.release)
	return set
}

// PreFilter finds out what the Pod needs; most Pods need nothing.
func (pl *Plugin) PreFilter(_ context.Context, state framework.CycleState, p *v1.Pod,
	_ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	set := pl.requiredFeatures(p)
	if set.IsEmpty() {
		return nil, framework.NewStatus(framework.Skip)
	}
	state.Write(stateKey, preFilterState{set})
	return nil, nil
}

// PreFilterExtensions has none: other Pods do not matter.
func (*Plugin) PreFilterExtensions() framework.PreFilterExtensions { return nil }

// missing are the features that the node lacks; none when PreFilter found nothing that the Pod
// needs. The error is about a NodeInfo made for other features than these.
func (pl *Plugin) missing(state framework.CycleState, n framework.NodeInfo) ([]string, error) {
	v, _ := state.Read(stateKey)
	want, _ := v.(preFilterState)
	r, err := pl.framework.MatchNodeFeatureSet(want.FeatureSet, n.GetNodeDeclaredFeatures())
	if err != nil {
		return nil, err
	}
	return r.UnsatisfiedRequirements, nil
}

// Filter refuses nodes that do not declare all of it.
func (pl *Plugin) Filter(_ context.Context, state framework.CycleState, _ *v1.Pod,
	n framework.NodeInfo) *framework.Status {
	missing, err := pl.missing(state, n)
	if err != nil {
		return framework.AsStatus(err)
	}
	if len(missing) == 0 {
		return nil
	}
	return framework.NewStatus(framework.UnschedulableAndUnresolvable,
		"node declared features check failed - unsatisfied requirements: "+strings.Join(missing, ", ")).WithPlugin(Name)
}

// Explain names the features.
func (pl *Plugin) Explain(_ context.Context, state framework.CycleState, _ *v1.Pod,
	n framework.NodeInfo) schedule.Explanation {
	missing, err := pl.missing(state, n)
	if err != nil || len(missing) == 0 {
		return schedule.Explanation{}
	}
	return schedule.Explanation{Code: reason.FeatureMissing,
		Detail: fmt.Sprintf("the node declares %v, the Pod needs %s", n.Node().Status.DeclaredFeatures,
			strings.Join(missing, ", ")),
		Fix: fmt.Sprintf("use a node whose kubelet has %s, or do without it", strings.Join(missing, ", "))}
}

// EventsToRegister wakes for nodes that declare what the Pod needs and for a Pod that changes.
func (pl *Plugin) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	node := func(_ logr.Logger, p *v1.Pod, before, after any) (framework.QueueingHint, error) {
		is, ok := after.(*v1.Node)
		if !ok {
			return framework.Queue, fmt.Errorf("got a %T, want a node", after)
		}
		if was, had := before.(*v1.Node); had && slices.Equal(was.Status.DeclaredFeatures, is.Status.DeclaredFeatures) {
			return framework.QueueSkip, nil
		}
		want, has := pl.requiredFeatures(p), pl.framework.TryMap(is.Status.DeclaredFeatures)
		if fits, _ := want.IsSubset(has); !fits { // no error: both are of one framework
			return framework.QueueSkip, nil
		}
		return framework.Queue, nil
	}
	return []framework.ClusterEventWithHint{
		{Event: framework.ClusterEvent{Resource: framework.Node,
			ActionType: framework.Add | framework.UpdateNodeDeclaredFeature}, QueueingHintFn: node},
	}, nil
}

// SignPod signs what the Pod needs.
func (pl *Plugin) SignPod(_ context.Context, p *v1.Pod) ([]framework.SignFragment, *framework.Status) {
	set := pl.requiredFeatures(p)
	return []framework.SignFragment{{Key: framework.FeaturesSignerName, Value: set.String()}}, nil
}
