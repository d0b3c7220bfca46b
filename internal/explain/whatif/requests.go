package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// Amount formats a quantity of a resource for people: cpu in milli, bytes as journal.Size.
func Amount(name string, n int64) string {
	switch {
	case name == string(v1.ResourceCPU):
		return fmt.Sprintf("%dm", n)
	case name == string(v1.ResourceMemory), name == string(v1.ResourceEphemeralStorage),
		strings.HasPrefix(name, v1.ResourceHugePagesPrefix):
		return journal.Size(n)
	}
	return fmt.Sprint(n)
}

func quantity(name string, n int64) resource.Quantity {
	switch {
	case name == string(v1.ResourceCPU):
		return *resource.NewMilliQuantity(n, resource.DecimalSI)
	case name == string(v1.ResourceMemory), name == string(v1.ResourceEphemeralStorage):
		return *resource.NewQuantity(n, resource.BinarySI)
	}
	return *resource.NewQuantity(n, resource.DecimalSI)
}

func quantityValue(name v1.ResourceName, l v1.ResourceList) int64 {
	q := l[name]
	if name == v1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// lowerRequests lowers the Pod's requests to what the node has left.
func lowerRequests(st searchState, r journal.NodeRefusal) []change {
	edited := st.pod.DeepCopy()
	var says []string
	cost := 0.0
	for _, x := range r.Shortages {
		free := x.Available - x.Used
		if x.Resource == string(v1.ResourcePods) || free <= 0 {
			return nil
		}
		steps, ok := lower(edited, v1.ResourceName(x.Resource), free)
		if !ok {
			return nil
		}
		says = append(says, steps...)
		cost += float64(x.Requested-free) / float64(x.Requested)
	}
	if len(says) == 0 {
		return nil
	}
	return []change{{kind: "request", description: strings.Join(says, " and "), cost: cost,
		pod: func(p *v1.Pod) { copyResources(p, edited) }}}
}

// copyResources gives a Pod the requests and limits of another one with the same containers.
func copyResources(to, from *v1.Pod) {
	to.Spec.Resources = from.Spec.Resources.DeepCopy()
	for i := range to.Spec.InitContainers {
		from.Spec.InitContainers[i].Resources.DeepCopyInto(&to.Spec.InitContainers[i].Resources)
	}
	for i := range to.Spec.Containers {
		from.Spec.Containers[i].Resources.DeepCopyInto(&to.Spec.Containers[i].Resources)
	}
}

// lower lowers requests, the largest first, until the whole Pod requests at most target; it
// describes what it did.
func lower(p *v1.Pod, name v1.ResourceName, target int64) ([]string, bool) {
	var says []string
	for range 40 {
		total := quantityValue(name, pod.Requests(p))
		if total <= target {
			return says, len(says) > 0
		}
		part, what := decisive(p, name)
		if part == nil {
			return nil, false
		}
		had := quantityValue(name, part.Requests)
		to := max(had-(total-target), 0)
		part.Requests[name] = quantity(string(name), to)
		if _, limited := part.Limits[name]; limited && isUnbounded(name) {
			part.Limits[name] = quantity(string(name), to)
		}
		if quantityValue(name, pod.Requests(p)) == total {
			return nil, false // determined elsewhere: overhead, or Pod-level resources
		}
		if part == p.Spec.Resources && to < inContainers(p, name) {
			return nil, false // Pod-level requests must not be below the containers'
		}
		exact := Amount(string(name), to)
		if q := quantity(string(name), to); name != v1.ResourceCPU {
			exact = q.String() // it is what the command sets
		}
		says = append(says, fmt.Sprintf("lower the %s request of %s by %s to %s", name, what,
			Amount(string(name), had-to), exact))
	}
	return nil, false
}

// isUnbounded reports whether the resource's request must equal its limit: extended resources
// cannot be overcommitted.
func isUnbounded(name v1.ResourceName) bool {
	return name != v1.ResourceCPU && name != v1.ResourceMemory && name != v1.ResourceEphemeralStorage
}

// inContainers returns the containers' requests without Pod-level resources.
func inContainers(p *v1.Pod, name v1.ResourceName) int64 {
	alone := *p
	alone.Spec.Resources, alone.Spec.Overhead = nil, nil
	return quantityValue(name, pod.Requests(&alone))
}

// decisive returns the requests that determine the Pod's total: Pod-level ones, the init container
// that alone exceeds the others, or the largest container.
func decisive(p *v1.Pod, name v1.ResourceName) (*v1.ResourceRequirements, string) {
	if p.Spec.Resources != nil {
		if _, ok := p.Spec.Resources.Requests[name]; ok {
			return p.Spec.Resources, "the Pod"
		}
	}
	total := quantityValue(name, pod.Requests(p))
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if quantityValue(name, c.Resources.Requests) == 0 || pod.IsSidecar(c) {
			continue
		}
		without := p.DeepCopy()
		without.Spec.InitContainers[i].Resources.Requests[name] = quantity(string(name), 0)
		if quantityValue(name, pod.Requests(without)) < total {
			return &c.Resources, "init container " + c.Name
		}
	}
	var best *v1.ResourceRequirements
	what, most := "", int64(0)
	look := func(c *v1.Container, kind string) {
		if n := quantityValue(name, c.Resources.Requests); n > most {
			best, what, most = &c.Resources, kind+c.Name, n
		}
	}
	for i := range p.Spec.Containers {
		look(&p.Spec.Containers[i], "container ")
	}
	for i := range p.Spec.InitContainers {
		if pod.IsSidecar(&p.Spec.InitContainers[i]) {
			look(&p.Spec.InitContainers[i], "sidecar ")
		}
	}
	return best, what
}

// freePods deletes Pods of the node: the smallest single one that suffices, or a few.
func freePods(st searchState, r journal.NodeRefusal) []change {
	n := st.snapshot.Node(r.Node)
	if n == nil || len(r.Shortages) == 0 {
		return nil
	}
	for _, x := range r.Shortages {
		if x.Requested > x.Available {
			return nil // not even an empty node
		}
	}
	own := ownPods(st, n)
	var alone []*v1.Pod
	for _, p := range own {
		if shortfallWithout(r.Shortages, p) == 0 {
			alone = append(alone, p)
		}
	}
	slices.SortStableFunc(alone, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(priorityOf(a), priorityOf(b)),
			cmp.Compare(weight(r.Shortages, a), weight(r.Shortages, b)), cmp.Compare(a.Name, b.Name))
	})
	var out []change
	for i, p := range alone {
		if i == 2 {
			break
		}
		out = append(out, deletePods(r.Node, p))
	}
	if len(alone) == 0 {
		if group := podsByWeight(own, r.Shortages); len(group) > 0 {
			out = append(out, deletePods(r.Node, group...))
		}
	}
	return out
}

// priorityOf ranks how acceptable it is to delete a Pod: a standalone, not critical one first.
func priorityOf(p *v1.Pod) int32 {
	n := pod.Priority(p)
	if p.Namespace == "kube-system" {
		n = max(n, 1) + 1_000_000_000
	}
	return n
}

// shortfallWithout returns the shortfall that remains without these Pods, relative to the requests.
func shortfallWithout(short []journal.Shortage, deletedPods ...*v1.Pod) float64 {
	var d float64
	for _, x := range short {
		left := x.Requested - (x.Available - x.Used)
		for _, p := range deletedPods {
			left -= share(x.Resource, p)
		}
		if left > 0 {
			d += float64(left) / float64(max(x.Requested, 1))
		}
	}
	return d
}

func share(name string, p *v1.Pod) int64 {
	if name == string(v1.ResourcePods) {
		return 1
	}
	return quantityValue(v1.ResourceName(name), pod.Requests(p))
}

func weight(short []journal.Shortage, p *v1.Pod) float64 {
	var w float64
	for _, x := range short {
		w += float64(share(x.Resource, p)) / float64(max(x.Requested, 1))
	}
	return w
}

// podsByWeight returns the Pods that help most until enough is free; at most four.
func podsByWeight(from []*v1.Pod, short []journal.Shortage) []*v1.Pod {
	var deletedPods []*v1.Pod
	for len(deletedPods) < 4 {
		var best *v1.Pod
		least := shortfallWithout(short, deletedPods...)
		for _, p := range from {
			if slices.Contains(deletedPods, p) {
				continue
			}
			if m := shortfallWithout(short, append(slices.Clip(deletedPods), p)...); m < least {
				best, least = p, m
			}
		}
		if best == nil {
			return nil
		}
		if deletedPods = append(deletedPods, best); least == 0 {
			return deletedPods
		}
	}
	return nil
}

func deletePods(node string, pods ...*v1.Pod) change {
	c := change{kind: "pod", cost: 2 * float64(len(pods)), pods: pods}
	var names, nodes []string
	for _, p := range pods {
		if n := cmp.Or(p.Spec.NodeName, node); !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
		name := p.Name
		if p.Namespace != "default" {
			name = p.Namespace + "/" + p.Name
		}
		names = append(names, fmt.Sprintf("%s (%s)", name, requestsText(p)))
		c.run = append(c.run, fmt.Sprintf("kubectl -n %s delete pod %s", p.Namespace, p.Name))
		c.deletedPods = append(c.deletedPods, p.UID)
		if len(p.OwnerReferences) > 0 {
			c.cost += 0.5
		}
	}
	c.description = fmt.Sprintf("remove pod %s from %s", strings.Join(names, " and "), strings.Join(nodes, " and "))
	c.snapshot = func(w *snapshot.Snapshot) (*snapshot.Snapshot, error) {
		var err error
		for _, p := range pods {
			if w, err = w.WithoutPod(p, cmp.Or(p.Spec.NodeName, node)); err != nil {
				return nil, err
			}
		}
		return w, nil
	}
	return c
}

func requestsText(p *v1.Pod) string {
	var parts []string
	l := pod.Requests(p)
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if n := quantityValue(name, l); n > 0 {
			parts = append(parts, Amount(string(name), n)+" "+string(name))
		}
	}
	if len(parts) == 0 {
		return "no requests"
	}
	return strings.Join(parts, ", ")
}

// raiseMaxPods raises the node's maxPods.
func raiseMaxPods(st searchState, r journal.NodeRefusal) []change {
	if len(r.Shortages) != 1 || r.Shortages[0].Resource != string(v1.ResourcePods) {
		return nil
	}
	if n := st.snapshot.Node(r.Node); n == nil || len(n.Node().Status.Allocatable) == 0 {
		return nil // no kubelet has reported what it has
	}
	x := r.Shortages[0]
	return []change{
		{kind: "node", description: fmt.Sprintf("let the kubelet of %s take %d Pods (maxPods: %d in its configuration)",
			r.Node, x.Used+1, x.Used+1), cost: 3,
			snapshot: func(w *snapshot.Snapshot) (*snapshot.Snapshot, error) {
				return editNode(w, r.Node, func(n *v1.Node) {
					n.Status.Allocatable[v1.ResourcePods] = *resource.NewQuantity(x.Used+1, resource.DecimalSI)
				})
			}}}
}

// otherResource requests a resource with the same last part of its name that the node offers, from
// another vendor.
func otherResource(st searchState, r journal.NodeRefusal) []change {
	n := st.snapshot.Node(r.Node)
	if n == nil || len(r.Shortages) != 1 || r.Shortages[0].Available != 0 || !strings.Contains(r.Shortages[0].Resource,
		"/") {
		return nil
	}
	wanted := r.Shortages[0].Resource
	_, last, _ := strings.Cut(wanted, "/")
	var out []change
	for name := range n.Node().Status.Allocatable {
		if _, l, ok := strings.Cut(string(name), "/"); !ok || l != last || string(name) == wanted {
			continue
		}
		out = append(out,
			change{kind: "resource", description: fmt.Sprintf("ask for %s: %d instead of %s", name,
				r.Shortages[0].Requested, wanted), cost: 1, pod: func(p *v1.Pod) {
				for i := range p.Spec.Containers {
					res := &p.Spec.Containers[i].Resources
					for _, l := range []v1.ResourceList{res.Requests, res.Limits} {
						if q, ok := l[v1.ResourceName(wanted)]; ok {
							delete(l, v1.ResourceName(wanted))
							l[name] = q
						}
					}
				}
			}})
	}
	return out
}

func editNode(w *snapshot.Snapshot, name string, edit func(*v1.Node)) (*snapshot.Snapshot, error) {
	n := w.Node(name)
	if n == nil {
		return nil, fmt.Errorf("node %s is not in the snapshot", name)
	}
	c := n.Node().DeepCopy()
	edit(c)
	return w.WithNode(c), nil
}
