// Package tainttoleration refuses nodes with a NoSchedule or NoExecute taint the Pod does not
// tolerate, and scores nodes with few untolerated PreferNoSchedule taints higher.
//
// Pure.
package tainttoleration

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/pod/fit"
	"github.com/gantry-project/gantry/internal/reason"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

const (
	// Name of the plugin.
	Name = "TaintToleration"
	// Reason is upstream's text.
	Reason = "node(s) had untolerated taint(s)"

	scoreKey framework.StateKey = "PreScore" + Name
)

// Plugin implements the extension points of this package.
type Plugin struct{ status *framework.Status }

// New makes the plugin.
func New() *Plugin {
	return &Plugin{status: framework.NewStatus(framework.UnschedulableAndUnresolvable, Reason).WithPlugin(Name)}
}

var (
	_ framework.FilterPlugin      = (*Plugin)(nil)
	_ framework.PreScorePlugin    = (*Plugin)(nil)
	_ framework.ScorePlugin       = (*Plugin)(nil)
	_ framework.EnqueueExtensions = (*Plugin)(nil)
	_ framework.SignPlugin        = (*Plugin)(nil)
	_ schedule.Explainer          = (*Plugin)(nil)
)

// Name is Name.
func (*Plugin) Name() string { return Name }

func findUntoleratedTaint(pod *v1.Pod, n *v1.Node) (v1.Taint, bool) {
	return fit.Untolerated(n.Spec.Taints, pod.Spec.Tolerations, v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute)
}

// Filter refuses nodes with an untolerated taint.
func (p *Plugin) Filter(_ context.Context, _ framework.CycleState, pod *v1.Pod,
	n framework.NodeInfo) *framework.Status {
	return p.filter(pod, n.Node())
}

func (p *Plugin) filter(pod *v1.Pod, n *v1.Node) *framework.Status {
	if _, untolerated := findUntoleratedTaint(pod, n); untolerated {
		return p.status
	}
	return nil
}

// Explain names the first taint that is not tolerated.
func (*Plugin) Explain(_ context.Context, _ framework.CycleState, pod *v1.Pod,
	n framework.NodeInfo) schedule.Explanation {
	t, bad := findUntoleratedTaint(pod, n.Node())
	if !bad {
		return schedule.Explanation{}
	}
	text := t.ToString()
	return schedule.Explanation{Code: reason.TaintNotTolerated, Detail: "taint " + text,
		Fix: fmt.Sprintf("add a toleration for %s to the Pod, or kubectl taint node %s %s-", text, n.Node().Name,
			t.Key+":"+string(t.Effect))}
}

type tolerations []v1.Toleration

// Clone shares: nothing changes them.
func (t tolerations) Clone() framework.StateData { return t }

// PreScore picks the tolerations that cover PreferNoSchedule.
func (*Plugin) PreScore(_ context.Context, state framework.CycleState, pod *v1.Pod,
	nodes []framework.NodeInfo) *framework.Status {
	state.Write(scoreKey, preferNoScheduleTolerations(pod))
	return nil
}

func preferNoScheduleTolerations(pod *v1.Pod) tolerations {
	var out tolerations
	for _, t := range pod.Spec.Tolerations {
		if t.Effect == "" || t.Effect == v1.TaintEffectPreferNoSchedule {
			out = append(out, t)
		}
	}
	return out
}

// Score counts untolerated PreferNoSchedule taints; normalising turns it round.
func (*Plugin) Score(_ context.Context, state framework.CycleState, pod *v1.Pod,
	n framework.NodeInfo) (int64, *framework.Status) {
	taints := n.Node().Spec.Taints
	if len(taints) == 0 {
		return 0, nil
	}
	v, err := state.Read(scoreKey)
	own, ok := v.(tolerations)
	if err != nil || !ok {
		own = preferNoScheduleTolerations(pod)
	}
	return countIntolerableTaints(taints, own), nil
}

func countIntolerableTaints(taints []v1.Taint, own tolerations) int64 {
	var n int64
	for i := range taints {
		if taints[i].Effect == v1.TaintEffectPreferNoSchedule && !fit.Tolerates(own, &taints[i]) {
			n++
		}
	}
	return n
}

// ScoreExtensions normalises.
func (p *Plugin) ScoreExtensions() framework.ScoreExtensions { return p }

// NormalizeScore gives the node with the fewest such taints the best score.
func (*Plugin) NormalizeScore(_ context.Context, _ framework.CycleState, _ *v1.Pod,
	scores framework.NodeScoreList) *framework.Status {
	schedule.Normalize(scores, true)
	return nil
}

// EventsToRegister wakes for nodes whose taints became tolerable and for a toleration added to the
// Pod.
func (*Plugin) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	node := func(_ logr.Logger, pod *v1.Pod, before, after any) (framework.QueueingHint, error) {
		is, has := after.(*v1.Node)
		if !has {
			return framework.Queue, nil
		}
		if _, bad := findUntoleratedTaint(pod, is); bad {
			return framework.QueueSkip, nil
		}
		if was, had := before.(*v1.Node); had {
			if _, bad := findUntoleratedTaint(pod, was); !bad {
				return framework.QueueSkip, nil
			}
		}
		return framework.Queue, nil
	}
	own := func(_ logr.Logger, pod *v1.Pod, _, after any) (framework.QueueingHint, error) {
		if changed, ok := after.(*v1.Pod); ok && changed.UID != pod.UID {
			return framework.QueueSkip, nil
		}
		return framework.Queue, nil
	}
	return []framework.ClusterEventWithHint{
		{Event: framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add | framework.UpdateNodeTaint},
			QueueingHintFn: node},
		{Event: framework.ClusterEvent{Resource: framework.TargetPod, ActionType: framework.UpdatePodToleration},
			QueueingHintFn: own},
	}, nil
}

// SignPod signs the tolerations.
func (*Plugin) SignPod(_ context.Context, pod *v1.Pod) ([]framework.SignFragment, *framework.Status) {
	return []framework.SignFragment{{Key: framework.TolerationsSignerName,
		Value: framework.TolerationsSigner(pod)}}, nil
}
