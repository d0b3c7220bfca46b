package volumebinding

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/storage"
)

// Upstream's texts.
const (
	ReasonAffinity  = "node(s) didn't match PersistentVolume's node affinity"
	ReasonNoVolume  = "node(s) didn't find available persistent volumes to bind"
	ReasonNoSpace   = "node(s) did not have enough free storage"
	ReasonGone      = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
	ReasonImmediate = "pod has unbound immediate PersistentVolumeClaims"
)

// Pairing is a claim and the volume it is to be bound to.
type Pairing struct {
	Claim  *v1.PersistentVolumeClaim
	Volume *v1.PersistentVolume
}

// Plan is what must be written before a Pod can start on a node: volumes given to claims, and claims to be provisioned for the node.
type Plan struct {
	Node      string
	Bind      []Pairing
	Provision []*v1.PersistentVolumeClaim
	Room      []*resource.Quantity // where each of Provision finds room; nil: nobody says how much there is
}

// Empty tells that everything is bound.
func (p *Plan) Empty() bool { return len(p.Bind)+len(p.Provision) == 0 }

// wishes are a Pod's claims as they stand, and what could serve those that wait.
type wishes struct {
	bound   []*v1.PersistentVolumeClaim
	waiting []waiting // smallest first
}

// waiting is a claim that waits for a node, with the volumes of its class.
type waiting struct {
	claim   *v1.PersistentVolumeClaim
	class   *storagev1.StorageClass // nil: not there
	volumes []*v1.PersistentVolume
}

// Clone shares: nothing changes it.
func (w *wishes) Clone() framework.StateData { return w }

var errImmediate = errors.New(ReasonImmediate)

// sortOut sorts a Pod's claims by how far they are; errImmediate when one must be bound before the Pod can be judged.
func sortOut(f storage.Facts, claims []*v1.PersistentVolumeClaim) (*wishes, error) {
	w := &wishes{}
	for _, c := range claims {
		if storage.FullyBound(c) {
			w.bound = append(w.bound, c)
			continue
		}
		waits, err := storage.Waits(f, c)
		if err != nil {
			return nil, err
		}
		if !waits || c.Spec.VolumeName != "" {
			return nil, errImmediate
		}
		name := volume.GetPersistentVolumeClaimClass(c)
		class, err := f.Class(name)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
		w.waiting = append(w.waiting, waiting{claim: c, class: class, volumes: f.VolumesOf(name)})
	}
	slices.SortStableFunc(w.waiting, func(a, b waiting) int {
		x, y := size(a.claim), size(b.claim)
		return x.Cmp(y)
	})
	return w, nil
}

// everywhere tells whether the claims can follow the Pod to any node: all are bound, to volumes that no node is too far from.
func (w *wishes) everywhere(f storage.Facts) bool {
	if len(w.waiting) > 0 {
		return false
	}
	for _, c := range w.bound {
		v, err := f.Volume(c.Spec.VolumeName)
		if err != nil || !storage.Anywhere(v) {
			return false
		}
	}
	return true
}

// Fault is why a claim keeps the Pod off a node.
type Fault struct {
	Text   string // upstream's
	Claim  *v1.PersistentVolumeClaim
	Volume *v1.PersistentVolume // nil: none is concerned
}

// plan finds out what would have to be written for the node, or why it cannot serve, worst first in upstream's order. The error is about an object that cannot be read.
func (w *wishes) plan(f storage.Facts, node *v1.Node) (*Plan, []Fault, error) {
	var faults []Fault
	fault, err := w.follows(f, node)
	if err != nil {
		return nil, nil, err
	}
	p := &Plan{Node: node.Name}
	var left []waiting
	chosen := map[string]*v1.PersistentVolume{}
	var unmet *Fault
	for _, c := range w.waiting {
		if selected, ok := c.claim.Annotations[volume.AnnSelectedNode]; ok {
			if selected != node.Name {
				return nil, order(fault, &Fault{Text: ReasonNoVolume, Claim: c.claim}), nil
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
		p.Bind = append(p.Bind, Pairing{c.claim, v})
	}
	for _, c := range left {
		var room *resource.Quantity
		if room, unmet, err = c.provisionable(f, node); err != nil {
			return nil, nil, err
		}
		if unmet != nil {
			break
		}
		p.Provision, p.Room = append(p.Provision, c.claim), append(p.Room, room)
	}
	if faults = order(fault, unmet); len(faults) > 0 {
		return nil, faults, nil
	}
	return p, nil, nil
}

// rank is upstream's order of reasons.
var rank = map[string]int{ReasonAffinity: 0, ReasonNoVolume: 1, ReasonNoSpace: 2, ReasonGone: 3}

func order(all ...*Fault) []Fault {
	var out []Fault
	for _, f := range all {
		if f != nil {
			out = append(out, *f)
		}
	}
	slices.SortStableFunc(out, func(a, b Fault) int { return cmp.Compare(rank[a.Text], rank[b.Text]) })
	return out
}

// follows tells whether the volumes of all bound claims can be reached from the node.
func (w *wishes) follows(f storage.Facts, node *v1.Node) (*Fault, error) {
	for _, c := range w.bound {
		v, err := f.Volume(c.Spec.VolumeName)
		if apierrors.IsNotFound(err) {
			return &Fault{Text: ReasonGone, Claim: c}, nil
		}
		if err != nil {
			return nil, err
		}
		if v, err = storage.Translated(v, f.CSINode(node.Name)); err != nil {
			return nil, err
		}
		if volume.CheckNodeAffinity(v, node.Labels) != nil {
			return &Fault{Text: ReasonAffinity, Claim: c, Volume: v}, nil
		}
	}
	return nil, nil
}

// provisionable tells why a volume for the claim cannot be made for the node, or, where that is known, how much room there is. Of several places that would do it
// takes the largest, so that the answer is the same each time.
func (w *waiting) provisionable(f storage.Facts, node *v1.Node) (*resource.Quantity, *Fault, error) {
	if w.class == nil {
		return nil, nil, fmt.Errorf("failed to find storage class %q", volume.GetPersistentVolumeClaimClass(w.claim))
	}
	if w.class.Provisioner == "" || w.class.Provisioner == volume.NotSupportedProvisioner || !allowed(w.class.AllowedTopologies, node.Labels) {
		return nil, &Fault{Text: ReasonNoVolume, Claim: w.claim}, nil
	}
	driver := f.Driver(w.class.Provisioner)
	if driver == nil || driver.Spec.StorageCapacity == nil || !*driver.Spec.StorageCapacity {
		return nil, nil, nil
	}
	want := size(w.claim)
	var room *resource.Quantity
	found := false
	for _, c := range f.Capacities() {
		if c.StorageClassName != w.class.Name || c.NodeTopology == nil {
			continue
		}
		limit := Limit(c)
		if limit == nil || limit.Value() < want.Value() || found && (c.Capacity == nil || room != nil && c.Capacity.Cmp(*room) <= 0) {
			continue
		}
		if s, err := metav1.LabelSelectorAsSelector(c.NodeTopology); err == nil && s.Matches(labels.Set(node.Labels)) {
			room, found = c.Capacity, true
		}
	}
	if !found {
		return nil, &Fault{Text: ReasonNoSpace, Claim: w.claim}, nil
	}
	return room, nil, nil
}

// allowed tells whether the labels are in one of the terms; no terms allow all.
func allowed(terms []v1.TopologySelectorTerm, of map[string]string) bool {
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
