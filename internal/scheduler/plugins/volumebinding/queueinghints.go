package volumebinding

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/reason"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// EventsToRegister wakes when a claim, a volume, a class or room for one may have come.
func (*Plugin) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	on := func(r framework.EventResource, a framework.ActionType,
		hint framework.QueueingHintFn) framework.ClusterEventWithHint {
		return framework.ClusterEventWithHint{Event: framework.ClusterEvent{Resource: r, ActionType: a},
			QueueingHintFn: hint}
	}
	return []framework.ClusterEventWithHint{
		on(framework.StorageClass, framework.Add|framework.Update, IsSchedulableAfterStorageClassChange),
		on(framework.PersistentVolumeClaim, framework.Add|framework.Update, IsSchedulableAfterClaimChange),
		on(framework.PersistentVolume, framework.Add|framework.Update, nil),
		on(framework.Node, framework.Add|framework.UpdateNodeLabel, nil),
		on(framework.CSINode, framework.Add|framework.Update, IsSchedulableAfterCSINodeChange),
		on(framework.CSIDriver, framework.Update, IsSchedulableAfterCSIDriverChange),
		on(framework.CSIStorageCapacity, framework.Add|framework.Update, IsSchedulableAfterCapacityChange),
	}, nil
}

// IsSchedulableAfterClaimChange: only the Pod's own claims matter.
func IsSchedulableAfterClaimChange(_ logr.Logger, p *v1.Pod, _, after any) (framework.QueueingHint, error) {
	c, ok := after.(*v1.PersistentVolumeClaim)
	if !ok {
		return framework.Queue, fmt.Errorf("got a %T, want a claim", after)
	}
	return queueWhen(volumelisters.Uses(p, c)), nil
}

// IsSchedulableAfterStorageClassChange: a new class may help; of an old one only the topologies can
// change.
func IsSchedulableAfterStorageClassChange(_ logr.Logger, _ *v1.Pod, before, after any) (framework.QueueingHint, error) {
	was, had := before.(*storagev1.StorageClass)
	is, ok := after.(*storagev1.StorageClass)
	if !ok {
		return framework.Queue, fmt.Errorf("got a %T, want a class", after)
	}
	return queueWhen(!had || !equality.Semantic.DeepEqual(was.AllowedTopologies, is.AllowedTopologies)), nil
}

// IsSchedulableAfterCSINodeChange: plugins taken over by CSI drivers change where their volumes can
// go.
func IsSchedulableAfterCSINodeChange(_ logr.Logger, _ *v1.Pod, before, after any) (framework.QueueingHint, error) {
	was, had := before.(*storagev1.CSINode)
	is, ok := after.(*storagev1.CSINode)
	if !ok {
		return framework.Queue, fmt.Errorf("got a %T, want a CSINode", after)
	}
	return queueWhen(
		!had || was.Annotations[v1.MigratedPluginsAnnotationKey] !=
			is.Annotations[v1.MigratedPluginsAnnotationKey]), nil
}

// IsSchedulableAfterCSIDriverChange: a driver whose capacity is not looked at any more can
// provision anywhere.
func IsSchedulableAfterCSIDriverChange(_ logr.Logger, _ *v1.Pod, before, after any) (framework.QueueingHint, error) {
	was, had := before.(*storagev1.CSIDriver)
	is, ok := after.(*storagev1.CSIDriver)
	if !ok || !had {
		return framework.Queue, fmt.Errorf("got %T and %T, want drivers", before, after)
	}
	counts := func(d *storagev1.CSIDriver) bool { return d.Spec.StorageCapacity != nil && *d.Spec.StorageCapacity }
	return queueWhen(counts(was) && !counts(is)), nil
}

// IsSchedulableAfterCapacityChange: more room than before.
func IsSchedulableAfterCapacityChange(_ logr.Logger, _ *v1.Pod, before, after any) (framework.QueueingHint, error) {
	was, had := before.(*storagev1.CSIStorageCapacity)
	is, ok := after.(*storagev1.CSIStorageCapacity)
	if !ok {
		return framework.Queue, fmt.Errorf("got a %T, want a capacity", after)
	}
	if !had {
		return framework.Queue, nil
	}
	old, now := MaxVolumeSize(was), MaxVolumeSize(is)
	return queueWhen(now != nil && (old == nil || now.Value() > old.Value())), nil
}

func queueWhen(yes bool) framework.QueueingHint {
	if yes {
		return framework.Queue
	}
	return framework.QueueSkip
}

// SignPod signs the Pod's volumes.
func (*Plugin) SignPod(_ context.Context, p *v1.Pod) ([]framework.SignFragment, *framework.Status) {
	return []framework.SignFragment{{Key: framework.VolumesSignerName, Value: framework.VolumesSigner(p)}}, nil
}

// Explain names the claim, the volume and where it is.
func (pl *Plugin) Explain(_ context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) schedule.Explanation {
	w := claimsToBindOf(state)
	if w == nil {
		return schedule.Explanation{}
	}
	_, reasons, err := w.findPodVolumes(pl.listers, n.Node())
	if err != nil || len(reasons) == 0 {
		return schedule.Explanation{}
	}
	f := reasons[0]
	claim := f.Claim.Namespace + "/" + f.Claim.Name
	want, class := size(f.Claim), volume.GetPersistentVolumeClaimClass(f.Claim)
	switch f.Text {
	case ReasonAffinity:
		where := NodeAffinityText(f.Volume)
		return schedule.Explanation{Code: reason.VolumeElsewhere,
			Detail: fmt.Sprintf("claim %s is bound to volume %s, which exists only where %s", claim, f.Volume.Name,
				where),
			Fix: fmt.Sprintf("make room on a node with %s, or add one there", where)}
	case ReasonGone:
		return schedule.Explanation{Code: reason.VolumeGone,
			Detail: fmt.Sprintf("claim %s is bound to volume %s, which is not there any more", claim,
				f.Claim.Spec.VolumeName),
			Fix: "restore the volume, or make the claim anew"}
	case ReasonNoSpace:
		return schedule.Explanation{Code: reason.VolumeNoSpace,
			Detail: fmt.Sprintf("no storage of class %s that this node reaches has %s left for claim %s",
				class, want.String(), claim),
			Fix: "request less storage, or add some"}
	}
	if selected, ok := f.Claim.Annotations[volume.AnnSelectedNode]; ok {
		return schedule.Explanation{Code: reason.VolumeNotFound,
			Detail: fmt.Sprintf("claim %s is being provisioned for node %s", claim, selected),
			Fix:    "wait for the provisioner, or make the claim anew"}
	}
	return schedule.Explanation{Code: reason.VolumeNotFound,
		Detail: fmt.Sprintf("claim %s (%s of class %s) finds no free volume that this node reaches, and none can be "+
			"provisioned for it%s", claim, want.String(), class, w.elsewhere(f.Claim)),
		Fix: fmt.Sprintf("add a volume of class %s with at least %s, or use a class that provisions",
			class, want.String())}
}

// maxElsewhere bounds the volumes that are told of a claim.
const maxElsewhere = 3

// elsewhere says which free volumes would do for a claim on other nodes; empty where there are
// none.
func (w *claimsToBind) elsewhere(claim *v1.PersistentVolumeClaim) string {
	var out []string
	for _, u := range w.unbound {
		if u.claim.UID != claim.UID || u.claim.Name != claim.Name {
			continue
		}
		for _, v := range u.volumes {
			have, want := v.Spec.Capacity[v1.ResourceStorage], claim.Spec.Resources.Requests[v1.ResourceStorage]
			if v.Spec.NodeAffinity == nil || v.Spec.ClaimRef != nil || have.Cmp(want) < 0 || len(out) == maxElsewhere {
				continue
			}
			out = append(out, fmt.Sprintf("volume %s exists only where %s", v.Name, NodeAffinityText(v)))
		}
	}
	if len(out) == 0 {
		return ""
	}
	slices.Sort(out)
	return "; " + strings.Join(out, "; ")
}

// NodeAffinityText says in words which nodes a volume can be reached from.
func NodeAffinityText(v *v1.PersistentVolume) string {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return "every node"
	}
	var terms []string
	for _, t := range v.Spec.NodeAffinity.Required.NodeSelectorTerms {
		var all []string
		for _, e := range append(append([]v1.NodeSelectorRequirement(nil), t.MatchExpressions...), t.MatchFields...) {
			if e.Operator == v1.NodeSelectorOpIn && len(e.Values) == 1 {
				all = append(all, e.Key+"="+e.Values[0])
				continue
			}
			all = append(all,
				strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, ","))))
		}
		terms = append(terms, strings.Join(all, " and "))
	}
	return strings.Join(terms, ", or ")
}
