package interpodaffinity

import (
	"context"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// EventsToRegister wakes when company may have come or disliked Pods may have gone: Pods that come,
// go or change labels, nodes that come or change labels.
func (pl *Plugin) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{
		{Event: framework.ClusterEvent{Resource: framework.Pod,
			ActionType: framework.Add | framework.Delete | framework.UpdatePodLabel},
			QueueingHintFn: pl.isSchedulableAfterPodChange},
		{Event: framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add | framework.UpdateNodeLabel},
			QueueingHintFn: pl.isSchedulableAfterNodeChange},
	}, nil
}

// isSchedulableAfterPodChange: a Pod came that the affinity wants, or one went that either Pod's
// anti-affinity excludes.
func (pl *Plugin) isSchedulableAfterPodChange(_ logr.Logger, p *v1.Pod,
	before, after any) (framework.QueueingHint, error) {
	own, err := snapshot.NewPodInfo(p)
	if err != nil {
		return framework.Queue, err
	}
	was, had := before.(*v1.Pod)
	is, has := after.(*v1.Pod)
	if has && is.UID == p.UID {
		return framework.Queue, nil
	}
	wanted, minded := own.GetRequiredAffinityTerms(), own.GetRequiredAntiAffinityTerms()
	if has && pl.matchesAll(wanted, is) && !(had && pl.matchesAll(wanted, was)) {
		return framework.Queue, nil
	}
	if had && pl.matchesAny(minded, was) && !(has && pl.matchesAll(minded, is)) {
		return framework.Queue, nil
	}
	if had && !has {
		gone, _ := snapshot.NewPodInfo(was) // terms that cannot be read kept nobody out
		if pl.matchesAny(gone.GetRequiredAntiAffinityTerms(), p) {
			return framework.Queue, nil
		}
	}
	return framework.QueueSkip, nil
}

// isSchedulableAfterNodeChange: a new node must have the keys that affinity needs; a changed one
// another value under a key that matters. Whose anti-affinity turned a Pod without terms of its own
// away is not known here, so any node helps that.
func (pl *Plugin) isSchedulableAfterNodeChange(_ logr.Logger, p *v1.Pod,
	before, after any) (framework.QueueingHint, error) {
	own, err := snapshot.NewPodInfo(p)
	if err != nil {
		return framework.Queue, err
	}
	is, has := after.(*v1.Node)
	was, had := before.(*v1.Node)
	wanted, minded := own.GetRequiredAffinityTerms(), own.GetRequiredAntiAffinityTerms()
	if !has || len(wanted)+len(minded) == 0 {
		return framework.Queue, nil
	}
	if !had {
		for i := range wanted {
			if _, ok := is.Labels[wanted[i].TopologyKey]; !ok {
				return framework.QueueSkip, nil
			}
		}
		return framework.Queue, nil
	}
	for _, terms := range [][]framework.AffinityTerm{wanted, minded} {
		for i := range terms {
			old, hadKey := was.Labels[terms[i].TopologyKey]
			now, hasKey := is.Labels[terms[i].TopologyKey]
			if hadKey != hasKey || old != now {
				return framework.Queue, nil
			}
		}
	}
	return framework.QueueSkip, nil
}

// SignPod signs what others' terms look at; Pods with terms of their own are not signed, for their
// status depends on the Pods around.
func (*Plugin) SignPod(_ context.Context, p *v1.Pod) ([]framework.SignFragment, *framework.Status) {
	if a := p.Spec.Affinity; a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) {
		return nil, framework.NewStatus(framework.Unschedulable, "inter-Pod affinity is not signed")
	}
	return []framework.SignFragment{{Key: framework.LabelsSignerName, Value: p.Labels},
		{Key: "v1.Pod.Namespace", Value: p.Namespace}}, nil
}
