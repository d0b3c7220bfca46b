package whatif

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/place"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// Gang is how the members of a group are placed one after the other.
type Gang struct {
	On       map[string]string // node by name of the member
	Stuck    *v1.Pod           // the first member that no node takes; nil: all have a node
	Refusals []journal.NodeRefusal
	World    *snapshot.Snapshot // with the placed members in it
}

// Together places members in order, each with those before it on their nodes, until one fits nowhere.
func Together(ctx context.Context, in In, members []*v1.Pod) (Gang, error) {
	g := Gang{On: map[string]string{}, World: in.World}
	for _, m := range members {
		r := place.One(ctx, place.In{Pod: m, World: g.World, Judges: in.Judges})
		if !r.Fits() {
			g.Stuck, g.Refusals = m, r.Refusals(r.Nodes())
			return g, nil
		}
		standing := m.DeepCopy()
		standing.Spec.NodeName = r.Winner
		info, err := snapshot.NewPodInfo(standing)
		if err != nil {
			return g, fmt.Errorf("member %s: %w", m.Name, err)
		}
		if g.World, err = g.World.WithPod(info, r.Winner); err != nil {
			return g, fmt.Errorf("member %s: %w", m.Name, err)
		}
		g.On[m.Name] = r.Winner
	}
	return g, nil
}

// Complete looks for changes around a group after which all its members have a node: for the member that is stuck, but at the expense of no other member, and
// a lower request for all of them. In.Pod is not used.
func Complete(ctx context.Context, in In, members []*v1.Pod, g Gang) []Remedy {
	if g.Stuck == nil {
		return nil
	}
	one := in
	one.Pod, one.World, one.Owner = g.Stuck.DeepCopy(), g.World, OwnerOf(g.Stuck)
	var out []Remedy
	found, _ := Find(ctx, one)
	for _, r := range found {
		hurts := slices.ContainsFunc(members, func(m *v1.Pod) bool {
			return r.Kind == "pod" && strings.Contains(strings.Join(r.Run, " ")+" ", "delete pod "+m.Name+" ")
		})
		if !hurts && r.Kind != "request" && !strings.Contains(r.Say, "lower the") {
			out = append(out, r)
		}
	}
	if r, ok := lowerAll(ctx, in, members, g); ok {
		out = append(out, r)
	}
	return out
}

// lowerAll finds the largest request with which every member has a node, when one resource alone is short.
func lowerAll(ctx context.Context, in In, members []*v1.Pod, g Gang) (Remedy, bool) {
	name := v1.ResourceName("")
	for _, r := range g.Refusals {
		if len(r.Short) == 1 && r.Short[0].Resource != string(v1.ResourcePods) {
			name = v1.ResourceName(r.Short[0].Resource)
		}
	}
	if name == "" {
		return Remedy{}, false
	}
	asked := figure(name, pod.Requests(g.Stuck))
	for _, target := range shares(in.World, name, len(members), asked) {
		edited := make([]*v1.Pod, len(members))
		ok := true
		for i, m := range members {
			edited[i] = m.DeepCopy()
			if figure(name, pod.Requests(m)) > target {
				_, lowered := lower(edited[i], name, target)
				ok = ok && lowered
			}
		}
		if !ok || ctx.Err() != nil {
			continue
		}
		if after, err := Together(ctx, in, edited); err != nil || after.Stuck != nil {
			continue
		}
		r := Remedy{Kind: "request", Say: fmt.Sprintf("lower the %s request of each member by %s to %s: all %d then have a node", name, Amount(string(name), asked-target), Amount(string(name), target), len(members))}
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

// shares are the requests with which a whole number of members fills a node's free room, the largest first.
func shares(w *snapshot.Snapshot, name v1.ResourceName, members int, below int64) []int64 {
	var out []int64
	for _, n := range w.All() {
		free := figure(name, n.Node().Status.Allocatable)
		for _, p := range n.GetPods() {
			free -= figure(name, pod.Requests(p.GetPod()))
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

// AskLess lowers a Pod's requests by what it lacked somewhere, so that it would have fitted there without anybody leaving.
func AskLess(p *v1.Pod, short []journal.Short) (Remedy, bool) {
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
	return Remedy{Kind: "request", Say: strings.Join(says, " and "), Run: podCommands(OwnerOf(p), bare, edited)}, true
}
