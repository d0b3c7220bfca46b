package volumebinding

import (
	"cmp"
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
)

// Upstream's texts.
const (
	ReasonAffinity  = "node(s) didn't match PersistentVolume's node affinity"
	ReasonNoVolume  = "node(s) didn't find available persistent volumes to bind"
	ReasonNoSpace   = "node(s) did not have enough free storage"
	ReasonGone      = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
	ReasonImmediate = "pod has unbound immediate PersistentVolumeClaims"
)

// BindingInfo is a claim and the volume it is to be bound to.
type BindingInfo struct {
	Claim  *v1.PersistentVolumeClaim
	Volume *v1.PersistentVolume
}

// PodVolumes is what must be written before a Pod can start on a node: volumes given to claims, and
// claims to be provisioned for the node.
type PodVolumes struct {
	Node              string
	StaticBindings    []BindingInfo
	DynamicProvisions []*v1.PersistentVolumeClaim
	CapacityOf        []*resource.Quantity // where each of Provision finds room; nil: nobody says how much there is
}

// Empty tells that everything is bound.
func (p *PodVolumes) Empty() bool { return len(p.StaticBindings)+len(p.DynamicProvisions) == 0 }

// claimsToBind are a Pod's claims as they stand, and what could serve those that wait.
type claimsToBind struct {
	bound   []*v1.PersistentVolumeClaim
	unbound []unboundClaim // smallest first
}

// unboundClaim is a claim that waits for a node, with the volumes of its class.
type unboundClaim struct {
	claim   *v1.PersistentVolumeClaim
	class   *storagev1.StorageClass
	volumes []*v1.PersistentVolume
}

// Clone shares: nothing changes it.
func (w *claimsToBind) Clone() framework.StateData { return w }

var errImmediate = errors.New(ReasonImmediate)

// classifyClaims sorts a Pod's claims by how far they are; errImmediate when one must be bound
// before the Pod can be scheduled.
func classifyClaims(f volumelisters.Listers, claims []*v1.PersistentVolumeClaim) (*claimsToBind, error) {
	w := &claimsToBind{}
	for _, c := range claims {
		if volumelisters.FullyBound(c) {
			w.bound = append(w.bound, c)
			continue
		}
		class, err := volumelisters.WaitingClass(f, c)
		if err != nil {
			return nil, err
		}
		if class == nil || c.Spec.VolumeName != "" {
			return nil, errImmediate
		}
		w.unbound = append(w.unbound, unboundClaim{claim: c, class: class, volumes: f.VolumesOfClass(class.Name)})
	}
	slices.SortStableFunc(w.unbound, func(a, b unboundClaim) int {
		x, y := size(a.claim), size(b.claim)
		return x.Cmp(y)
	})
	return w, nil
}

// reachableFromAllNodes tells whether the claims can follow the Pod to any node: all are bound, to
// volumes that no node is too far from.
func (w *claimsToBind) reachableFromAllNodes(f volumelisters.Listers) bool {
	if len(w.unbound) > 0 {
		return false
	}
	for _, c := range w.bound {
		v, err := f.Volume(c.Spec.VolumeName)
		if err != nil || !volumelisters.IsReachableFromAllNodes(v) {
			return false
		}
	}
	return true
}

// ConflictReason is why a claim keeps the Pod off a node.
type ConflictReason struct {
	Text   string // upstream's
	Claim  *v1.PersistentVolumeClaim
	Volume *v1.PersistentVolume // nil: none is concerned
}

// findPodVolumes finds out what would have to be written for the node, or why it cannot serve,
// worst first in upstream's order. The error is about an object that cannot be read.
func (w *claimsToBind) findPodVolumes(f volumelisters.Listers, node *v1.Node) (*PodVolumes, []ConflictReason, error) {
	var reasons []ConflictReason
	fault, err := w.checkBoundClaims(f, node)
	if err != nil {
		return nil, nil, err
	}
	p := &PodVolumes{Node: node.Name}
	var left []unboundClaim
	chosen := map[string]*v1.PersistentVolume{}
	var unmet *ConflictReason
	for _, c := range w.unbound {
		if selected, ok := c.claim.Annotations[volume.AnnSelectedNode]; ok {
			if selected != node.Name {
				return nil, sortReasons(fault, &ConflictReason{Text: ReasonNoVolume, Claim: c.claim}), nil
			}
			left = append(left, c)
			continue
		}
		v, err := volume.FindMatchingVolume(c.claim, c.volumes, node, chosen, true, true)
		if err != nil {
			return nil, nil, err
		}
		if v == nil {
			left = append(left, c)
			continue
		}
		chosen[v.Name] = v
		p.StaticBindings = append(p.StaticBindings, BindingInfo{c.claim, v})
	}
	for _, c := range left {
		var room *resource.Quantity
		if room, unmet = c.checkVolumeProvisions(f, node); unmet != nil {
			break
		}
		p.DynamicProvisions, p.CapacityOf = append(p.DynamicProvisions, c.claim), append(p.CapacityOf, room)
	}
	if reasons = sortReasons(fault, unmet); len(reasons) > 0 {
		return nil, reasons, nil
	}
	return p, nil, nil
}

// reasonOrder is upstream's order of reasons.
var reasonOrder = map[string]int{ReasonAffinity: 0, ReasonNoVolume: 1, ReasonNoSpace: 2, ReasonGone: 3}

func sortReasons(all ...*ConflictReason) []ConflictReason {
	var out []ConflictReason
	for _, f := range all {
		if f != nil {
			out = append(out, *f)
		}
	}
	slices.SortStableFunc(out,
		func(a, b ConflictReason) int { return cmp.Compare(reasonOrder[a.Text], reasonOrder[b.Text]) })
	return out
}

// checkBoundClaims tells whether the volumes of all bound claims can be reached from the node.
func (w *claimsToBind) checkBoundClaims(f volumelisters.Listers, node *v1.Node) (*ConflictReason, error) {
	for _, c := range w.bound {
		v, err := f.Volume(c.Spec.VolumeName)
		if apierrors.IsNotFound(err) {
			return &ConflictReason{Text: ReasonGone, Claim: c}, nil
		}
		if err != nil {
			return nil, err
		}
		if v, err = volumelisters.TranslateInTree(v, f.CSINode(node.Name)); err != nil {
			return nil, err
		}
		if volume.CheckNodeAffinity(v, node.Labels) != nil {
			return &ConflictReason{Text: ReasonAffinity, Claim: c, Volume: v}, nil
		}
	}
	return nil, nil
}

// checkVolumeProvisions tells why a volume for the claim cannot be made for the node, or, where
// that is known, how much room there is. Of several places that would do it takes the largest, so
// that the answer is the same each time.
func (w *unboundClaim) checkVolumeProvisions(f volumelisters.Listers,
	node *v1.Node) (*resource.Quantity, *ConflictReason) {
	if w.class.Provisioner == "" || w.class.Provisioner == volume.NotSupportedProvisioner ||
		!matchesTopology(w.class.AllowedTopologies, node.Labels) {
		return nil, &ConflictReason{Text: ReasonNoVolume, Claim: w.claim}
	}
	driver := f.Driver(w.class.Provisioner)
	if driver == nil || driver.Spec.StorageCapacity == nil || !*driver.Spec.StorageCapacity {
		return nil, nil
	}
	want := size(w.claim)
	var room *resource.Quantity
	found := false
	for _, c := range f.Capacities() {
		if c.StorageClassName != w.class.Name || c.NodeTopology == nil {
			continue
		}
		limit := MaxVolumeSize(c)
		if limit == nil || limit.Value() < want.Value() ||
			found && (c.Capacity == nil || room != nil && c.Capacity.Cmp(*room) <= 0) {
			continue
		}
		if s, err := metav1.LabelSelectorAsSelector(c.NodeTopology); err == nil && s.Matches(labels.Set(node.Labels)) {
			room, found = c.Capacity, true
		}
	}
	if !found {
		return nil, &ConflictReason{Text: ReasonNoSpace, Claim: w.claim}
	}
	return room, nil
}

// matchesTopology tells whether the labels are in one of the terms; no terms allow all.
func matchesTopology(terms []v1.TopologySelectorTerm, of map[string]string) bool {
	if len(terms) == 0 {
		return true
	}
	return slices.ContainsFunc(terms, func(t v1.TopologySelectorTerm) bool {
		for _, e := range t.MatchLabelExpressions {
			if value, ok := of[e.Key]; !ok || !slices.Contains(e.Values, value) {
				return false
			}
		}
		return len(t.MatchLabelExpressions) > 0
	})
}
