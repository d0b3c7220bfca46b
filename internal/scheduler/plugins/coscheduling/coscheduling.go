package coscheduling

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"
)

// Name of the plugin.
const Name = "Coscheduling"

// maxMissingForWait is the share of missing members up to which a group is not rejected for one
// that fits nowhere: the gap may close soon.
const maxMissingForWait = 0.1

// Sources are what the plugin knows of the API.
type Sources interface {
	// Group finds a PodGroup; nil when there is none.
	Group(namespace, name string) *Group
	// Members lists the Pods whose label names the group.
	Members(namespace, group string) ([]*v1.Pod, error)
	// Backoff makes a group rest after it was rejected, Resting tells whether it still does.
	Backoff(g *Group, d time.Duration)
	InBackoff(g *Group) bool
}

// Plugin is the plugin.
type Plugin struct {
	args    *Args
	handle  framework.Handle
	sources Sources
}

var (
	_ framework.QueueSortPlugin   = (*Plugin)(nil)
	_ framework.PreFilterPlugin   = (*Plugin)(nil)
	_ framework.PostFilterPlugin  = (*Plugin)(nil)
	_ framework.PermitPlugin      = (*Plugin)(nil)
	_ framework.ReservePlugin     = (*Plugin)(nil)
	_ framework.EnqueueExtensions = (*Plugin)(nil)
)

// New makes it; args are completed.
func New(args *Args, h framework.Handle, s Sources) *Plugin { return &Plugin{args, h, s} }

// Name is Name.
func (*Plugin) Name() string { return Name }

// PodGroupLabelOf names a Pod's group; empty when it has none.
func PodGroupLabelOf(p *v1.Pod) string { return p.Labels[Label] }

// group finds a Pod's PodGroup: named is false when the Pod names none, g nil when it does not
// exist.
func (p *Plugin) group(pod *v1.Pod) (g *Group, named bool) {
	name := PodGroupLabelOf(pod)
	if name == "" {
		return nil, false
	}
	return p.sources.Group(pod.Namespace, name), true
}

// Less sorts by priority, then by when the group (of a Pod without one: the Pod) was made, then by
// name of the group, so that members follow each other, and members by their own names.
func (p *Plugin) Less(a, b framework.QueuedEntityInfo) bool {
	x, y := podOf(a), podOf(b)
	if i, j := a.GetPriority(), b.GetPriority(); i != j {
		return i > j
	}
	if i, j := p.groupCreationTime(a, x), p.groupCreationTime(b, y); !i.Equal(j) {
		return i.Before(j)
	}
	if i, j := groupKey(x), groupKey(y); i != j {
		return i < j
	}
	return x != nil && y != nil && x.Name < y.Name
}

// podOf gives the Pod of a queue entry; nil for entities that are no Pods.
func podOf(e framework.QueuedEntityInfo) *v1.Pod {
	if one, ok := e.(interface{ GetPod() *v1.Pod }); ok {
		return one.GetPod()
	}
	return nil
}

func (p *Plugin) groupCreationTime(e framework.QueuedEntityInfo, pod *v1.Pod) time.Time {
	if pod != nil {
		if g, _ := p.group(pod); g != nil {
			return g.CreationTimestamp.Time
		}
	}
	if t := e.GetInitialAttemptTimestamp(); t != nil {
		return *t
	}
	return e.GetTimestamp()
}

func groupKey(p *v1.Pod) string {
	switch {
	case p == nil:
		return ""
	case PodGroupLabelOf(p) != "":
		return p.Namespace + "/" + PodGroupLabelOf(p)
	}
	return p.Namespace + "/" + p.Name
}

// PreFilter refuses quickly what cannot be complete: too few members, or less free room than
// minResources.
func (p *Plugin) PreFilter(_ context.Context, _ framework.CycleState, pod *v1.Pod,
	nodes []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	g, _ := p.group(pod)
	if g == nil {
		return nil, nil
	}
	if p.sources.InBackoff(g) {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable,
			fmt.Sprintf("podGroup %v/%v failed recently", g.Namespace, g.Name))
	}
	members, err := p.sources.Members(pod.Namespace, g.Name)
	if err != nil {
		return nil, framework.AsStatus(fmt.Errorf("listing members of PodGroup %s/%s: %w", g.Namespace, g.Name, err))
	}
	if len(members) < int(g.Spec.MinMember) {
		// not yet: when the last member comes there is nothing to wait out, and all of them are
		// tried at once, in their order
		return nil, framework.NewStatus(framework.Pending, fmt.Sprintf(tooFewText, pod.Name, len(members),
			g.Spec.MinMember))
	}
	if gap := missingResources(g, nodes); len(gap) > 0 {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf("resource gap: %v", gap))
	}
	return nil, nil
}

// PreFilterExtensions has none.
func (*Plugin) PreFilterExtensions() framework.PreFilterExtensions { return nil }

// PostFilter rejects the whole group when one member fits nowhere, unless it is complete without it
// or nearly so.
func (p *Plugin) PostFilter(_ context.Context, _ framework.CycleState, pod *v1.Pod,
	_ framework.NodeToStatusReader) (*framework.PostFilterResult, *framework.Status) {
	g, _ := p.group(pod)
	if g == nil {
		return &framework.PostFilterResult{}, framework.NewStatus(framework.Unschedulable, "can not find pod group")
	}
	placed, err := p.countAssigned(g)
	switch {
	case err != nil:
		return nil, framework.AsStatus(err)
	case placed >= int(g.Spec.MinMember):
		return &framework.PostFilterResult{}, framework.NewStatus(framework.Unschedulable)
	case float64(int(g.Spec.MinMember)-placed)/float64(g.Spec.MinMember) <= maxMissingForWait:
		return &framework.PostFilterResult{}, framework.NewStatus(framework.Unschedulable)
	}
	p.rejectWaiting(g, "optimistic rejection in PostFilter")
	if d := time.Duration(*p.args.PodGroupBackoffSeconds) * time.Second; d > 0 {
		if members, err := p.sources.Members(g.Namespace, g.Name); err == nil && len(members) >= int(g.Spec.MinMember) {
			p.sources.Backoff(g, d)
		}
	}
	return &framework.PostFilterResult{}, framework.NewStatus(framework.Unschedulable,
		fmt.Sprintf("PodGroup %v/%v gets rejected due to Pod %v is unschedulable even after PostFilter", g.Namespace,
			g.Name, pod.Name))
}

// Permit lets the group go once enough members have a node, and makes the Pod wait until then.
func (p *Plugin) Permit(_ context.Context, _ framework.CycleState, pod *v1.Pod,
	_ string) (*framework.Status, time.Duration) {
	g, named := p.group(pod)
	switch {
	case !named:
		return nil, 0
	case g == nil:
		return framework.NewStatus(framework.Unschedulable, NoPodGroup), 0
	}
	placed, err := p.countAssigned(g)
	if err != nil {
		return framework.AsStatus(err), 0
	}
	if placed+1 >= int(g.Spec.MinMember) { // the Pod itself is not in the snapshot
		p.eachWaiting(g, func(w framework.WaitingPod) { w.Allow(Name) })
		return nil, 0
	}
	if placed == 0 { // the first of its group: its siblings should follow at once
		p.activateSiblings(g, pod)
	}
	say := fmt.Sprintf(assignedText, placed+1, g.Spec.MinMember, g.Namespace, g.Name)
	return framework.NewStatus(framework.Wait, say), p.permitTimeout(g)
}

// Reserve has nothing to claim.
func (*Plugin) Reserve(context.Context, framework.CycleState, *v1.Pod, string) *framework.Status {
	return nil
}

// Unreserve turns the waiting members back: without this one they may wait for long.
func (p *Plugin) Unreserve(_ context.Context, _ framework.CycleState, pod *v1.Pod, _ string) {
	if g, _ := p.group(pod); g != nil {
		p.rejectWaiting(g, "rejection in Unreserve")
	}
}

// eachWaiting calls do for each member of the group at Permit.
func (p *Plugin) eachWaiting(g *Group, do func(framework.WaitingPod)) {
	p.handle.IterateOverWaitingPods(func(w framework.WaitingPod) {
		if o := w.GetPod(); o.Namespace == g.Namespace && PodGroupLabelOf(o) == g.Name {
			do(w)
		}
	})
}

func (p *Plugin) rejectWaiting(g *Group, why string) {
	p.eachWaiting(g, func(w framework.WaitingPod) { w.Reject(Name, why) })
}

func (p *Plugin) activateSiblings(g *Group, pod *v1.Pod) {
	members, err := p.sources.Members(g.Namespace, g.Name)
	if err != nil {
		return // they are woken by their own events
	}
	siblings := map[string]*v1.Pod{}
	for _, m := range members {
		if m.UID != pod.UID {
			siblings[m.Namespace+"/"+m.Name] = m
		}
	}
	p.handle.Activate(logr.Discard(), siblings)
}

// countAssigned counts the members that have a node, bound or not, in the snapshot of the cycle.
func (p *Plugin) countAssigned(g *Group) (int, error) {
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return 0, fmt.Errorf("listing nodes: %w", err)
	}
	n := 0
	for _, node := range nodes {
		for _, other := range node.GetPods() {
			if o := other.GetPod(); o.Labels[Label] == g.Name && o.Namespace == g.Namespace && o.Spec.NodeName != "" {
				n++
			}
		}
	}
	return n, nil
}
