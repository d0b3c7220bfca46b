package whatif

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// GroupPlacement is the simulated placement of a group's members, one after the other.
type GroupPlacement struct {
	Nodes         map[string]string // by name of the member
	Unschedulable *v1.Pod           // the first member that fits on no node; nil: all fit
	Refusals      []journal.NodeRefusal
	Snapshot      *snapshot.Snapshot // with the placed members
}

// PlaceGroup schedules members in order on a copy of the snapshot, each with the earlier ones
// placed, until one fits nowhere.
func PlaceGroup(ctx context.Context, in In, members []*v1.Pod) (GroupPlacement, error) {
	g := GroupPlacement{Nodes: map[string]string{}, Snapshot: in.Snapshot}
	for _, m := range members {
		r := schedule.SchedulePod(ctx, schedule.Input{Pod: m, Snapshot: g.Snapshot, Plugins: in.Plugins})
		if !r.Scheduled() {
			g.Unschedulable, g.Refusals = m, r.Refusals(r.Nodes())
			return g, nil
		}
		standing := m.DeepCopy()
		standing.Spec.NodeName = r.SuggestedHost
		info, err := snapshot.NewPodInfo(standing)
		if err != nil {
			return g, fmt.Errorf("member %s: %w", m.Name, err)
		}
		if g.Snapshot, err = g.Snapshot.WithPod(info, r.SuggestedHost); err != nil {
			return g, fmt.Errorf("member %s: %w", m.Name, err)
		}
		g.Nodes[m.Name] = r.SuggestedHost
	}
	return g, nil
}

// CompleteGroup returns remedies with which all members of a group fit: for the unschedulable
// member, without deleting other members, and a lower request for all. In.Pod is not used.
func CompleteGroup(ctx context.Context, in In, members []*v1.Pod, g GroupPlacement) []Remedy {
	if g.Unschedulable == nil {
		return nil
	}
	one := in
	one.Pod, one.Snapshot, one.Owner = g.Unschedulable.DeepCopy(), g.Snapshot, OwnerOf(g.Unschedulable)
	var out []Remedy
	found, _ := FindRemedies(ctx, one)
	for _, r := range found {
		hurts := slices.ContainsFunc(members, func(m *v1.Pod) bool {
			return r.Kind == "pod" && strings.Contains(strings.Join(r.Run, " ")+" ", "delete pod "+m.Name+" ")
		})
		if !hurts && r.Kind != "request" && !strings.Contains(r.Description, "lower the") {
			out = append(out, r)
		}
	}
	if r, ok := lowerAllRequests(ctx, in, members, g); ok {
		out = append(out, r)
	}
	return out
}

// lowerAllRequests finds the largest request with which all members fit, if only one resource is
// short.
func lowerAllRequests(ctx context.Context, in In, members []*v1.Pod, g GroupPlacement) (Remedy, bool) {
	name := v1.ResourceName("")
	for _, r := range g.Refusals {
		if len(r.Shortages) == 1 && r.Shortages[0].Resource != string(v1.ResourcePods) {
			name = v1.ResourceName(r.Shortages[0].Resource)
		}
	}
	if name == "" {
		return Remedy{}, false
	}
	requested := quantityValue(name, pod.Requests(g.Unschedulable))
	for _, target := range dividingRequests(in.Snapshot, name, len(members), requested) {
		edited := make([]*v1.Pod, len(members))
		ok := true
		for i, m := range members {
			edited[i] = m.DeepCopy()
			if quantityValue(name, pod.Requests(m)) > target {
				_, lowered := lower(edited[i], name, target)
				ok = ok && lowered
			}
		}
		if !ok || ctx.Err() != nil {
			continue
		}
		if after, err := PlaceGroup(ctx, in, edited); err != nil || after.Unschedulable != nil {
			continue
		}
		each := "member"
		if len(in.Together) > 0 {
			each = "Pod"
		}
		r := Remedy{Kind: "request",
			Description: fmt.Sprintf("lower the %s request of each %s by %s to %s: all %d then have a node", name, each,
				Amount(string(name), requested-target), Amount(string(name), target), len(members))}
		for i, m := range members {
			for _, cmd := range podCommands(OwnerOf(m), m, edited[i]) {
				if !slices.Contains(r.Run, cmd) {
					r.Run = append(r.Run, cmd)
				}
			}
		}
		return r, true
	}
	return Remedy{}, false
}

// dividingRequests returns requests of which a whole number fills a node's free room, the largest
// first.
func dividingRequests(w *snapshot.Snapshot, name v1.ResourceName, members int, below int64) []int64 {
	var out []int64
	for _, n := range w.All() {
		free := quantityValue(name, n.Node().Status.Allocatable)
		for _, p := range n.GetPods() {
			free -= quantityValue(name, pod.Requests(p.GetPod()))
		}
		for k := int64(1); k <= int64(members); k++ {
			if v := free / k; v > 0 && v < below && !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out[:min(len(out), 60)]
}

// LowerRequests lowers a Pod's requests by its shortages on a node, so that it would have fitted
// there without victims.
func LowerRequests(p *v1.Pod, short []journal.Shortage) (Remedy, bool) {
	edited := p.DeepCopy()
	var says []string
	for _, x := range short {
		free := x.Available - x.Used
		if free <= 0 || x.Resource == string(v1.ResourcePods) {
			return Remedy{}, false
		}
		steps, ok := lower(edited, v1.ResourceName(x.Resource), free)
		if !ok {
			return Remedy{}, false
		}
		says = append(says, steps...)
	}
	if len(says) == 0 {
		return Remedy{}, false
	}
	edited.Spec.NodeName = ""
	bare := p.DeepCopy()
	bare.Spec.NodeName = ""
	return Remedy{Kind: "request", Description: strings.Join(says, " and "),
		Run: podCommands(OwnerOf(p), bare, edited)}, true
}
