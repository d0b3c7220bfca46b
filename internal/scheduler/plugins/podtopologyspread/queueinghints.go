package podtopologyspread

import (
	"context"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kube-scheduler/framework"
)

// EventsToRegister wakes when counts or domains may have changed: a matching Pod came, went or
// changed labels, a node with the keys came, went or changed.
func (pl *Plugin) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	nodes := framework.Add | framework.Delete | framework.UpdateNodeLabel | framework.UpdateNodeTaint
	return []framework.ClusterEventWithHint{
		{Event: framework.ClusterEvent{Resource: framework.Pod,
			ActionType: framework.Add | framework.Delete | framework.UpdatePodLabel},
			QueueingHintFn: pl.isSchedulableAfterPodChange},
		{Event: framework.ClusterEvent{Resource: framework.Node, ActionType: nodes},
			QueueingHintFn: pl.isSchedulableAfterNodeChange},
	}, nil
}

func (pl *Plugin) isSchedulableAfterPodChange(_ logr.Logger, p *v1.Pod,
	before, after any) (framework.QueueingHint, error) {
	all, err := pl.constraints(p, v1.DoNotSchedule)
	if err != nil {
		return framework.Queue, err
	}
	for _, obj := range []any{before, after} {
		other, ok := obj.(*v1.Pod)
		if !ok {
			continue
		}
		if other.UID == p.UID {
			return framework.Queue, nil
		}
		if other.Namespace != p.Namespace {
			continue
		}
		for i := range all {
			if all[i].selector.Matches(labels.Set(other.Labels)) {
				return framework.Queue, nil
			}
		}
	}
	return framework.QueueSkip, nil
}

func (pl *Plugin) isSchedulableAfterNodeChange(_ logr.Logger, p *v1.Pod,
	before, after any) (framework.QueueingHint, error) {
	all, err := pl.constraints(p, v1.DoNotSchedule)
	if err != nil {
		return framework.Queue, err
	}
	for _, obj := range []any{before, after} {
		if n, ok := obj.(*v1.Node); ok && hasAllKeys(n, all) {
			return framework.Queue, nil
		}
	}
	return framework.QueueSkip, nil
}

// SignPod signs Pods without constraints only: the status of others depends on the Pods around.
func (pl *Plugin) SignPod(_ context.Context, p *v1.Pod) ([]framework.SignFragment, *framework.Status) {
	if len(p.Spec.TopologySpreadConstraints) > 0 || pl.selectorOf != nil && len(pl.defaults) > 0 {
		return nil, framework.NewStatus(framework.Unschedulable, "topology spread is not signed")
	}
	return nil, nil
}
