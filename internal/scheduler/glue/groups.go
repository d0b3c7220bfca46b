package glue

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins/gangscheduling"
)

// Gang is a PodGroup that could not be placed.
type Gang struct {
	Object *schedulingv1beta1.PodGroup
	Pods   []*v1.Pod // without a node, in the order they are tried
	Need   int       // so many of them must have one
}

// GangPostFilter is a PostFilter plugin that can help a whole group: it says which node each of its Pods may hope for.
type GangPostFilter interface {
	PostFilterGang(ctx context.Context, g Gang) (map[types.UID]string, *framework.Status)
}

// PostFilterGang asks the first such plugin of the profile; a status that is not a success says why there is no hope.
func (p *Profile) PostFilterGang(ctx context.Context, g Gang) (map[types.UID]string, *framework.Status) {
	for _, pl := range p.postFilter {
		if helper, ok := pl.(GangPostFilter); ok {
			return helper.PostFilterGang(ctx, g)
		}
	}
	return nil, nil
}

// Groups are the PodGroups and their Pods as the scheduler knows them. Composite groups (KEP-6012, alpha) are not served.
type Groups struct {
	mu    sync.RWMutex
	known map[framework.EntityKey]*group
}

// group is a PodGroup: the object, once it exists, and its Pods.
type group struct {
	object  *schedulingv1beta1.PodGroup
	pods    map[types.UID]*v1.Pod
	assumed sets.Set[types.UID]
	bound   sets.Set[types.UID]
}

var _ framework.PodGroupManager = (*Groups)(nil)

// NewGroups knows none.
func NewGroups() *Groups { return &Groups{known: map[framework.EntityKey]*group{}} }

func (g *Groups) at(namespace, name string) *group {
	k := framework.PodGroupKey(namespace, name)
	if g.known[k] == nil {
		g.known[k] = &group{pods: map[types.UID]*v1.Pod{}, assumed: sets.Set[types.UID]{}, bound: sets.Set[types.UID]{}}
	}
	return g.known[k]
}

func (g *Groups) tidy(namespace, name string) {
	k := framework.PodGroupKey(namespace, name)
	if x := g.known[k]; x != nil && x.object == nil && len(x.pods) == 0 {
		delete(g.known, k)
	}
}

// Set takes in a PodGroup as it is now.
func (g *Groups) Set(o *schedulingv1beta1.PodGroup) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at(o.Namespace, o.Name).object = o
}

// Drop forgets it; its Pods stay known.
func (g *Groups) Drop(o *schedulingv1beta1.PodGroup) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at(o.Namespace, o.Name).object = nil
	g.tidy(o.Namespace, o.Name)
}

// SetPod takes in a Pod as the API has it; one of no group is passed over.
func (g *Groups) SetPod(p *v1.Pod) {
	name := gangscheduling.Of(p)
	if name == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.at(p.Namespace, name)
	x.pods[p.UID] = p
	if p.Spec.NodeName != "" {
		x.bound.Insert(p.UID)
		x.assumed.Delete(p.UID)
	}
}

// RemovePod forgets a Pod.
func (g *Groups) RemovePod(p *v1.Pod) {
	name := gangscheduling.Of(p)
	if name == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.at(p.Namespace, name)
	delete(x.pods, p.UID)
	x.assumed.Delete(p.UID)
	x.bound.Delete(p.UID)
	g.tidy(p.Namespace, name)
}

// Assume notes that a Pod stands on a node by assumption, or no longer does.
func (g *Groups) Assume(p *v1.Pod, assumed bool) {
	name := gangscheduling.Of(p)
	if name == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.known[framework.PodGroupKey(p.Namespace, name)]
	switch {
	case x == nil || x.pods[p.UID] == nil:
	case assumed && !x.bound.Has(p.UID):
		x.assumed.Insert(p.UID)
	default:
		x.assumed.Delete(p.UID)
	}
}

// PodGroups gives the objects.
func (g *Groups) PodGroups() framework.PodGroupLister { return groupObjects{g} }

// PodGroupStates gives what is known of their Pods; an answer follows what happens later.
func (g *Groups) PodGroupStates() framework.PodGroupStateLister { return groupStates{g} }

// CompositePodGroups has none.
func (*Groups) CompositePodGroups() framework.CompositePodGroupLister {
	return (&Current{}).CompositePodGroups()
}

// CompositePodGroupStates has none.
func (*Groups) CompositePodGroupStates() framework.CompositePodGroupStateLister {
	return (&Current{}).CompositePodGroupStates()
}

// BuildHierarchySnapshotFromPod gives the groups themselves: without composite ones every group is a root.
func (g *Groups) BuildHierarchySnapshotFromPod(p *v1.Pod) (framework.PodGroupManager, error) {
	if _, err := g.PodGroups().Get(p.Namespace, gangscheduling.Of(p)); err != nil {
		return nil, fmt.Errorf("pod group %s/%s: %w", p.Namespace, gangscheduling.Of(p), err)
	}
	return g, nil
}

// GetRootKeyForGroup is the group's own key.
func (g *Groups) GetRootKeyForGroup(k framework.EntityKey) (framework.EntityKey, bool, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	x := g.known[k]
	return k, x != nil && x.object != nil, nil
}

type groupObjects struct{ *Groups }

// Get finds a PodGroup.
func (g groupObjects) Get(namespace, name string) (*schedulingv1beta1.PodGroup, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if x := g.known[framework.PodGroupKey(namespace, name)]; x != nil && x.object != nil {
		return x.object, nil
	}
	return nil, framework.ErrNotFound
}

type groupStates struct{ *Groups }

// Get finds what is known of a group's Pods.
func (g groupStates) Get(namespace, name string) (framework.PodGroupState, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if x := g.known[framework.PodGroupKey(namespace, name)]; x != nil {
		return groupState{g.Groups, x}, nil
	}
	return nil, framework.ErrNotFound
}

type groupState struct {
	all *Groups
	*group
}

// read takes a look under the lock.
func read[T any](s groupState, f func() T) T {
	s.all.mu.RLock()
	defer s.all.mu.RUnlock()
	return f()
}

// AllPods are the UIDs of all Pods of the group.
func (s groupState) AllPods() sets.Set[types.UID] {
	return read(s, func() sets.Set[types.UID] { return sets.KeySet(s.pods) })
}

// AllPodsCount counts them.
func (s groupState) AllPodsCount() int { return read(s, func() int { return len(s.pods) }) }

// UnscheduledPods are those without a node, by namespace/name.
func (s groupState) UnscheduledPods() map[string]*v1.Pod {
	return read(s, func() map[string]*v1.Pod {
		out := map[string]*v1.Pod{}
		for uid, p := range s.pods {
			if !s.assumed.Has(uid) && !s.bound.Has(uid) {
				out[p.Namespace+"/"+p.Name] = p
			}
		}
		return out
	})
}

// AssumedPods are the UIDs of those whose binding is under way.
func (s groupState) AssumedPods() sets.Set[types.UID] { return read(s, s.assumed.Clone) }

// AssignedPods are the UIDs of those that are bound.
func (s groupState) AssignedPods() sets.Set[types.UID] { return read(s, s.bound.Clone) }

// ScheduledPods are both of these.
func (s groupState) ScheduledPods() []*v1.Pod {
	return read(s, func() []*v1.Pod {
		var out []*v1.Pod
		for uid, p := range s.pods {
			if s.assumed.Has(uid) || s.bound.Has(uid) {
				out = append(out, p)
			}
		}
		return out
	})
}

// ScheduledPodsCount counts them.
func (s groupState) ScheduledPodsCount() int {
	return read(s, func() int { return len(s.assumed) + len(s.bound) })
}
