// Package volumezone refuses nodes in another zone or region than the labels of a Pod's bound
// volumes say.
//
// Volumes of old carry their zone as a label, several zones joined by "__"; volumes of today have
// node affinity, which volumebinding checks. A node without any zone or region label takes every
// volume. Pure.
package volumezone

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/reason"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumebinding"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

const (
	// Name of the plugin.
	Name = "VolumeZone"
	// Reason is upstream's text.
	Reason = "node(s) had no available volume zone"

	stateKey framework.StateKey = "PreFilter" + Name
)

// Plugin implements the extension points of this package.
type Plugin struct {
	listers volumelisters.Listers
	status  *framework.Status
}

// New makes the plugin; without facts it refuses no node.
func New(listers volumelisters.Listers) *Plugin {
	return &Plugin{listers: listers, status: framework.NewStatus(framework.UnschedulableAndUnresolvable,
		Reason).WithPlugin(Name)}
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

// topologyLabel is where a volume is by one of its labels.
type topologyLabel struct {
	claim, volume, key string
	values             []string
}

type preFilterState []topologyLabel

// Clone shares: nothing changes them.
func (h preFilterState) Clone() framework.StateData { return h }

// labels that say where a volume is, and what nodes of today call the old ones.
var (
	zoneLabels = []string{v1.LabelFailureDomainBetaZone, v1.LabelFailureDomainBetaRegion, v1.LabelTopologyZone,
		v1.LabelTopologyRegion}
	currentLabels = map[string]string{v1.LabelFailureDomainBetaZone: v1.LabelTopologyZone,
		v1.LabelFailureDomainBetaRegion: v1.LabelTopologyRegion}
)

// Skips tells whether the Pod has no claims.
func (*Plugin) Skips(p *v1.Pod, _ *snapshot.Snapshot) bool {
	return !slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool { return v.PersistentVolumeClaim != nil })
}

// PreFilter reads the labels of the bound volumes once.
func (pl *Plugin) PreFilter(_ context.Context, state framework.CycleState, p *v1.Pod,
	_ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	if pl.listers == nil {
		return nil, framework.NewStatus(framework.Skip)
	}
	var all preFilterState
	for i := range p.Spec.Volumes {
		if p.Spec.Volumes[i].PersistentVolumeClaim == nil {
			continue
		}
		found, s := pl.topologyLabelsOfClaim(p.Namespace, p.Spec.Volumes[i].PersistentVolumeClaim.ClaimName)
		if s != nil {
			return nil, s
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, framework.NewStatus(framework.Skip)
	}
	state.Write(stateKey, all)
	return nil, nil
}

func (pl *Plugin) topologyLabelsOfClaim(namespace, name string) ([]topologyLabel, *framework.Status) {
	never := func(text string) *framework.Status {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, text)
	}
	asStatus := func(err error) *framework.Status {
		if apierrors.IsNotFound(err) {
			return never(err.Error())
		}
		return framework.AsStatus(err)
	}
	if name == "" {
		return nil, never("PersistentVolumeClaim had no name")
	}
	c, err := pl.listers.Claim(namespace, name)
	if err != nil {
		return nil, asStatus(err)
	}
	if c.Spec.VolumeName == "" {
		className := volume.GetPersistentVolumeClaimClass(c)
		if className == "" {
			return nil, never("PersistentVolumeClaim had no pv name and storageClass name")
		}
		class, err := pl.listers.Class(className)
		switch {
		case err != nil:
			return nil, asStatus(err)
		case class.VolumeBindingMode == nil:
			return nil, never(fmt.Sprintf("VolumeBindingMode not set for StorageClass %q", className))
		case *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
			return nil, never("PersistentVolume had no name")
		}
		return nil, nil
	}
	v, err := pl.listers.Volume(c.Spec.VolumeName)
	if err != nil {
		return nil, asStatus(err)
	}
	out := topologyLabelsOf(v)
	for i := range out {
		out[i].claim = name
	}
	return out, nil
}

// topologyLabelsOf reads a volume's labels; one that cannot be read does not count.
func topologyLabelsOf(v *v1.PersistentVolume) []topologyLabel {
	var out []topologyLabel
	for _, key := range zoneLabels {
		text, ok := v.Labels[key]
		if !ok {
			continue
		}
		values := strings.Split(text, "__")
		for i := range values {
			values[i] = strings.TrimSpace(values[i])
		}
		if !slices.Contains(values, "") {
			out = append(out, topologyLabel{volume: v.Name, key: key, values: values})
		}
	}
	return out
}

// PreFilterExtensions has none: other Pods do not matter.
func (*Plugin) PreFilterExtensions() framework.PreFilterExtensions { return nil }

// Filter refuses nodes elsewhere.
func (pl *Plugin) Filter(_ context.Context, state framework.CycleState, _ *v1.Pod,
	n framework.NodeInfo) *framework.Status {
	if _, _, bad := conflictingLabel(state, n.Node()); bad {
		return pl.status
	}
	return nil
}

// conflictingLabel gives the first label of a volume that the node does not share.
func conflictingLabel(state framework.CycleState, n *v1.Node) (h topologyLabel, has string, bad bool) {
	v, err := state.Read(stateKey)
	all, ok := v.(preFilterState)
	if err != nil || !ok || !slices.ContainsFunc(zoneLabels,
		func(key string) bool { _, ok := n.Labels[key]; return ok }) {
		return topologyLabel{}, "", false
	}
	for _, h := range all {
		has, ok := n.Labels[h.key]
		if !ok && currentLabels[h.key] != "" {
			has, ok = n.Labels[currentLabels[h.key]]
		}
		if !ok || !slices.Contains(h.values, has) {
			return h, has, true
		}
	}
	return topologyLabel{}, "", false
}

// Explain says where the volume is.
func (*Plugin) Explain(_ context.Context, state framework.CycleState, p *v1.Pod,
	n framework.NodeInfo) schedule.Explanation {
	h, has, bad := conflictingLabel(state, n.Node())
	if !bad {
		return schedule.Explanation{}
	}
	where := h.key + "=" + strings.Join(h.values, " or ")
	if has == "" {
		has = "no such label"
	}
	return schedule.Explanation{Code: reason.VolumeElsewhere,
		Detail: fmt.Sprintf("claim %s/%s is bound to volume %s in %s, the node has %s", p.Namespace, h.claim, h.volume,
			where, has),
		Fix: fmt.Sprintf("make room on a node with %s, or add one there", where)}
}

// EventsToRegister wakes for nodes, the Pod's claims, and volumes whose labels changed.
func (*Plugin) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	on := func(r framework.EventResource, a framework.ActionType,
		hint framework.QueueingHintFn) framework.ClusterEventWithHint {
		return framework.ClusterEventWithHint{Event: framework.ClusterEvent{Resource: r, ActionType: a},
			QueueingHintFn: hint}
	}
	return []framework.ClusterEventWithHint{
		on(framework.StorageClass, framework.Add, isSchedulableAfterStorageClassChange),
		on(framework.Node, framework.Add|framework.UpdateNodeLabel, nil),
		on(framework.PersistentVolumeClaim, framework.Add|framework.Update,
			volumebinding.IsSchedulableAfterClaimChange),
		on(framework.PersistentVolume, framework.Add|framework.Update, isSchedulableAfterVolumeChange),
	}, nil
}

// isSchedulableAfterStorageClassChange: only a class that waits lets a Pod go on with an unbound
// claim.
func isSchedulableAfterStorageClassChange(_ logr.Logger, _ *v1.Pod, _, after any) (framework.QueueingHint, error) {
	c, ok := after.(*storagev1.StorageClass)
	if !ok {
		return framework.Queue, fmt.Errorf("got a %T, want a class", after)
	}
	if c.VolumeBindingMode == nil || *c.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
		return framework.QueueSkip, nil
	}
	return framework.Queue, nil
}

func isSchedulableAfterVolumeChange(_ logr.Logger, _ *v1.Pod, before, after any) (framework.QueueingHint, error) {
	was, had := before.(*v1.PersistentVolume)
	is, ok := after.(*v1.PersistentVolume)
	if !ok {
		return framework.Queue, fmt.Errorf("got a %T, want a volume", after)
	}
	where := func(v *v1.PersistentVolume) map[string]string {
		out := map[string]string{}
		for _, h := range topologyLabelsOf(v) {
			out[h.key] = strings.Join(h.values, ",")
		}
		return out
	}
	if had && maps.Equal(where(was), where(is)) {
		return framework.QueueSkip, nil
	}
	return framework.Queue, nil
}

// SignPod signs the Pod's volumes.
func (*Plugin) SignPod(_ context.Context, p *v1.Pod) ([]framework.SignFragment, *framework.Status) {
	return []framework.SignFragment{{Key: framework.VolumesSignerName, Value: framework.VolumesSigner(p)}}, nil
}
