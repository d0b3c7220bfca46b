package frameworkruntime

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

// UnschedulablePodGroup is a PodGroup that has no room.
type UnschedulablePodGroup struct {
	Object   *schedulingv1beta1.PodGroup
	Pods     []*v1.Pod // without a node, in the order they are tried
	MinCount int       // so many of them must have one
}

// PodGroupPostFilterPlugin is a PostFilter plugin that can make room for a whole group: it returns
// the node that each of its Pods is nominated to.
type PodGroupPostFilterPlugin interface {
	PostFilterPodGroup(ctx context.Context, g UnschedulablePodGroup) (map[types.UID]string, *framework.Status)
}

// PostFilterPodGroup runs the first such plugin of the profile; a status that is not a success says
// why there is no room to be made.
func (p *Profile) PostFilterPodGroup(ctx context.Context,
	g UnschedulablePodGroup) (map[types.UID]string, *framework.Status) {
	for _, pl := range p.postFilter {
		if helper, ok := pl.(PodGroupPostFilterPlugin); ok {
			return helper.PostFilterPodGroup(ctx, g)
		}
	}
	return nil, nil
}

// PodGroups are the PodGroups and their Pods as the scheduler knows them; any goroutine may call
// its methods. Composite groups (KEP-6012, alpha) are not served.
type PodGroups struct {
	mu     sync.RWMutex
	groups map[framework.EntityKey]*podGroup
}

// podGroup is a PodGroup: the object, once it exists, and its Pods.
type podGroup struct {
	object   *schedulingv1beta1.PodGroup
	pods     map[types.UID]*v1.Pod
	assumed  sets.Set[types.UID]
	assigned sets.Set[types.UID]
}

var _ framework.PodGroupManager = (*PodGroups)(nil)

// NewPodGroups makes an empty one.
func NewPodGroups() *PodGroups { return &PodGroups{groups: map[framework.EntityKey]*podGroup{}} }

func (g *PodGroups) getOrCreate(namespace, name string) *podGroup {
	k := framework.PodGroupKey(namespace, name)
	if g.groups[k] == nil {
		g.groups[k] = &podGroup{pods: map[types.UID]*v1.Pod{}, assumed: sets.Set[types.UID]{},
			assigned: sets.Set[types.UID]{}}
	}
	return g.groups[k]
}

func (g *PodGroups) removeIfEmpty(namespace, name string) {
	k := framework.PodGroupKey(namespace, name)
	if x := g.groups[k]; x != nil && x.object == nil && len(x.pods) == 0 {
		delete(g.groups, k)
	}
}

// Set takes in a PodGroup as it is now.
func (g *PodGroups) Set(o *schedulingv1beta1.PodGroup) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.getOrCreate(o.Namespace, o.Name).object = o
}

// Delete forgets it; its Pods stay known.
func (g *PodGroups) Delete(o *schedulingv1beta1.PodGroup) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.getOrCreate(o.Namespace, o.Name).object = nil
	g.removeIfEmpty(o.Namespace, o.Name)
}

// SetPod takes in a Pod as the informer gives it; a Pod of no group is ignored.
func (g *PodGroups) SetPod(p *v1.Pod) {
	name := gangscheduling.PodGroupNameOf(p)
	if name == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.getOrCreate(p.Namespace, name)
	x.pods[p.UID] = p
	if p.Spec.NodeName != "" {
		x.assigned.Insert(p.UID)
		x.assumed.Delete(p.UID)
	}
}

// RemovePod forgets a Pod.
func (g *PodGroups) RemovePod(p *v1.Pod) {
	name := gangscheduling.PodGroupNameOf(p)
	if name == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.getOrCreate(p.Namespace, name)
	delete(x.pods, p.UID)
	x.assumed.Delete(p.UID)
	x.assigned.Delete(p.UID)
	g.removeIfEmpty(p.Namespace, name)
}

// SetAssumed notes that a Pod is assumed on a node, or no longer is.
func (g *PodGroups) SetAssumed(p *v1.Pod, assumed bool) {
	name := gangscheduling.PodGroupNameOf(p)
	if name == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.groups[framework.PodGroupKey(p.Namespace, name)]
	switch {
	case x == nil || x.pods[p.UID] == nil:
	case assumed && !x.assigned.Has(p.UID):
		x.assumed.Insert(p.UID)
	default:
		x.assumed.Delete(p.UID)
	}
}

// PodGroups lists the objects.
func (g *PodGroups) PodGroups() framework.PodGroupLister { return podGroupObjects{g} }

// PodGroupStates gives the states of their Pods; a state that was given follows later changes.
func (g *PodGroups) PodGroupStates() framework.PodGroupStateLister { return podGroupStates{g} }

// CompositePodGroups has none.
func (*PodGroups) CompositePodGroups() framework.CompositePodGroupLister {
	return (&CurrentSnapshot{}).CompositePodGroups()
}

// CompositePodGroupStates has none.
func (*PodGroups) CompositePodGroupStates() framework.CompositePodGroupStateLister {
	return (&CurrentSnapshot{}).CompositePodGroupStates()
}

// BuildHierarchySnapshotFromPod returns g itself: without composite groups every group is a root.
// The error wraps framework.ErrNotFound where the Pod's group has no object.
func (g *PodGroups) BuildHierarchySnapshotFromPod(p *v1.Pod) (framework.PodGroupManager, error) {
	if _, err := g.PodGroups().Get(p.Namespace, gangscheduling.PodGroupNameOf(p)); err != nil {
		return nil, fmt.Errorf("pod group %s/%s: %w", p.Namespace, gangscheduling.PodGroupNameOf(p), err)
	}
	return g, nil
}

// GetRootKeyForGroup returns the group's own key, since there are no composite groups, and whether
// its object is known; the error is always nil. Safe for concurrent use.
func (g *PodGroups) GetRootKeyForGroup(k framework.EntityKey) (framework.EntityKey, bool, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	x := g.groups[k]
	return k, x != nil && x.object != nil, nil
}

type podGroupObjects struct{ *PodGroups }

// Get returns the PodGroup as last watched, not to be changed; framework.ErrNotFound while only
// Pods of the group are known. Safe for concurrent use.
func (g podGroupObjects) Get(namespace, name string) (*schedulingv1beta1.PodGroup, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if x := g.groups[framework.PodGroupKey(namespace, name)]; x != nil && x.object != nil {
		return x.object, nil
	}
	return nil, framework.ErrNotFound
}

type podGroupStates struct{ *PodGroups }

// Get returns the state of the group's Pods, which follows later changes; framework.ErrNotFound
// where neither the object nor a Pod is known. Safe for concurrent use.
func (g podGroupStates) Get(namespace, name string) (framework.PodGroupState, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if x := g.groups[framework.PodGroupKey(namespace, name)]; x != nil {
		return podGroupState{g.PodGroups, x}, nil
	}
	return nil, framework.ErrNotFound
}

type podGroupState struct {
	all *PodGroups
	*podGroup
}

// readLocked reads a group under the lock.
func readLocked[T any](s podGroupState, f func() T) T {
	s.all.mu.RLock()
	defer s.all.mu.RUnlock()
	return f()
}

// AllPods are the UIDs of all Pods of the group.
func (s podGroupState) AllPods() sets.Set[types.UID] {
	return readLocked(s, func() sets.Set[types.UID] { return sets.KeySet(s.pods) })
}

// AllPodsCount counts them.
func (s podGroupState) AllPodsCount() int { return readLocked(s, func() int { return len(s.pods) }) }

// UnscheduledPods are those without a node, by namespace/name.
func (s podGroupState) UnscheduledPods() map[string]*v1.Pod {
	return readLocked(s, func() map[string]*v1.Pod {
		out := map[string]*v1.Pod{}
		for uid, p := range s.pods {
			if !s.assumed.Has(uid) && !s.assigned.Has(uid) {
				out[p.Namespace+"/"+p.Name] = p
			}
		}
		return out
	})
}

// AssumedPods are the UIDs of those whose binding is under way.
func (s podGroupState) AssumedPods() sets.Set[types.UID] { return readLocked(s, s.assumed.Clone) }

// AssignedPods are the UIDs of those that are bound.
func (s podGroupState) AssignedPods() sets.Set[types.UID] { return readLocked(s, s.assigned.Clone) }

// ScheduledPods are both of these.
func (s podGroupState) ScheduledPods() []*v1.Pod {
	return readLocked(s, func() []*v1.Pod {
		var out []*v1.Pod
		for uid, p := range s.pods {
			if s.assumed.Has(uid) || s.assigned.Has(uid) {
				out = append(out, p)
			}
		}
		return out
	})
}

// ScheduledPodsCount counts them.
func (s podGroupState) ScheduledPodsCount() int {
	return readLocked(s, func() int { return len(s.assumed) + len(s.assigned) })
}
