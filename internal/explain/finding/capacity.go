package finding

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// neverFits finds requests that no node can ever hold, even empty, and says where the sum comes
// from.
func neverFits(c *Cluster, o metav1.Object, self Object) []Finding {
	spec, at := podSpecOf(o)
	nodes := list[*corev1.Node](c, "Node")
	if spec == nil || spec.NodeName != "" || len(nodes) == 0 {
		return nil
	}
	p := &corev1.Pod{Spec: *spec}
	requests := pod.Requests(p)
	var out []Finding
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		want := requests[name]
		most, on := largest(nodes, name)
		if want.Cmp(most) <= 0 || want.IsZero() {
			continue
		}
		who, path := heaviest(spec, at, name)
		f := Finding{Code: "NoNodeCanHold", Stage: StagePlacement, Object: self, Field: path, Value: want.String(),
			Want: most.String(), Numbers: map[string]string{"requested": want.String(), "allocatable": most.String()}}
		if on == nil {
			f.Message = fmt.Sprintf("%s %s requests %s of %s, and no node offers that resource.", self.Kind, self.Name,
				want.String(), name)
			if near, how := nearResource(nodes, name); near != "" {
				f.Want = near
				f.Message += fmt.Sprintf(" Nodes offer %s; %s.", near, how)
			}
		} else {
			f.Related = []Object{objectOf("Node", on)}
			f.Message = fmt.Sprintf("No node can ever hold %s %s, even empty: it requests %s of %s (%s), and the "+
				"largest node, %s, has %s allocatable%s.", self.Kind, self.Name, want.String(), name, who, on.Name,
				most.String(),
				reservedText(on, name))
			thousandths(&f, spec, name, most)
		}
		out = append(out, f)
	}
	return out
}

// thousandths says that the unit was probably forgotten, where a hundred whole cores and more are
// asked for and as many thousandths would fit.
func thousandths(f *Finding, spec *corev1.PodSpec, name corev1.ResourceName, most resource.Quantity) {
	if name != corev1.ResourceCPU {
		return
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			q := list[i].Resources.Requests[name]
			small := resource.NewMilliQuantity(q.Value(), resource.DecimalSI)
			if q.Value() < 100 || q.MilliValue()%1000 != 0 || q.Cmp(most) <= 0 || small.Cmp(most) > 0 {
				continue
			}
			f.Value, f.Want = q.String(), fmt.Sprintf("%dm", q.Value())
			f.Message += fmt.Sprintf(" %s without a unit are whole cores: perhaps %s was meant, thousandths of one.",
				q.String(), f.Want)
			return
		}
	}
}

// largest returns the most of a resource that any node has, and the node; nil when none has it.
func largest(nodes []*corev1.Node, name corev1.ResourceName) (most resource.Quantity, on *corev1.Node) {
	for _, n := range nodes {
		q, ok := n.Status.Allocatable[name]
		if ok && !q.IsZero() && q.Cmp(most) > 0 {
			most, on = q, n
		}
	}
	return most, on
}

// reservedText says what of a node's capacity is reserved.
func reservedText(n *corev1.Node, name corev1.ResourceName) string {
	all, free := n.Status.Capacity[name], n.Status.Allocatable[name]
	all.Sub(free)
	if all.Sign() <= 0 {
		return ""
	}
	capacity := n.Status.Capacity[name]
	return fmt.Sprintf(" (capacity %s, %s reserved)", capacity.String(), all.String())
}

// heaviest says which part of a Pod's sum is the largest, and its path.
func heaviest(s *corev1.PodSpec, at string, name corev1.ResourceName) (who, path string) {
	if s.Resources != nil {
		if q, ok := s.Resources.Requests[name]; ok {
			return "the Pod's own resources, " + q.String(), fmt.Sprintf("%s.resources.requests.%s", at, name)
		}
	}
	var best resource.Quantity
	var parts []string
	look := func(list string, containers []corev1.Container) {
		for i := range containers {
			q, ok := containers[i].Resources.Requests[name]
			if !ok {
				continue
			}
			what := containers[i].Name
			if list == "initContainers" {
				what = "init container " + what
			}
			parts = append(parts, what+" "+q.String())
			if q.Cmp(best) > 0 {
				best, path = q, fmt.Sprintf("%s.%s[%d].resources.requests.%s", at, list, i, name)
			}
		}
	}
	look("initContainers", s.InitContainers)
	look("containers", s.Containers)
	if q, ok := s.Overhead[name]; ok {
		parts = append(parts, "overhead "+q.String())
		if q.Cmp(best) > 0 {
			path = fmt.Sprintf("%s.overhead.%s", at, name)
		}
	}
	return strings.Join(parts, ", "), path
}

// nearResource names a resource of nodes that was probably meant.
func nearResource(nodes []*corev1.Node, want corev1.ResourceName) (name, how string) {
	var have []string
	for _, n := range nodes {
		for r := range n.Status.Allocatable {
			if !slices.Contains(have, string(r)) {
				have = append(have, string(r))
			}
		}
	}
	if name, how = Near(string(want), have); name != "" {
		return name, how
	}
	_, last, _ := strings.Cut(string(want), "/")
	slices.Sort(have)
	for _, h := range have {
		if _, l, ok := strings.Cut(h, "/"); ok && l == last {
			return h, "the vendor differs"
		}
	}
	return "", ""
}
