package finding

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
	"github.com/gantry-project/gantry/internal/pod"
)

// resize finds a Pod whose resources were changed in place and whose node does not give them to it:
// the request that grew, with what the node has.
func resize(c *Cluster, o metav1.Object, self Object) []Finding {
	p, ok := o.(*corev1.Pod)
	if !ok || !pod.IsActive(p) {
		return nil
	}
	i := slices.IndexFunc(p.Status.Conditions, func(x corev1.PodCondition) bool {
		return x.Type == corev1.PodResizePending && x.Status == corev1.ConditionTrue
	})
	if i < 0 {
		return nil
	}
	cond := p.Status.Conditions[i]
	f := Finding{Code: "ResizePending", Severity: Threat, Stage: StageNode, Object: self, Field: "spec",
		Numbers: map[string]string{"reason": cond.Reason}, Related: []Object{{Kind: "Node", Name: p.Spec.NodeName}},
		Message: fmt.Sprintf("Pod %s keeps the resources that it had: its node %s does not resize it (%s): %s",
			self.Name, p.Spec.NodeName, cond.Reason, cond.Message),
		Remedies: []Remedy{{Say: "make the Pod anew, where a node has as much: a resize never moves a Pod"}}}
	node, known := get[*corev1.Node](c, "Node", "", p.Spec.NodeName)
	sum := pod.Requests(&corev1.Pod{Spec: p.Spec})
	for _, g := range grown(p) {
		never := false
		if known {
			most, total := node.Status.Allocatable[g.name], sum[g.name]
			never = total.Cmp(most) > 0
			f.Numbers["allocatable"] = most.String()
		}
		if f.Value != "" && !never {
			continue
		}
		f.Field, f.Value, f.Want = g.field, g.want.String(), g.has.String()
		f.Numbers["requested"], f.Numbers["has"] = f.Value, f.Want
		if never {
			f.Severity = Broken
			f.Message = fmt.Sprintf("Pod %s keeps the resources that it had: it asks for %s of %s, and its node %s "+
				"has %s allocatable in all, so it never gets them there. It runs with %s.", self.Name, f.Value, g.name,
				p.Spec.NodeName, f.Numbers["allocatable"], f.Want)
			break
		}
	}
	if f.Want != "" {
		f.Remedies = append([]Remedy{{Say: "ask for what it has: " + f.Want}}, f.Remedies...)
	}
	if known && f.Severity == Threat {
		c.deferred(&f, p, node)
	}
	return []Finding{f}
}

// deferred tells of a resize that waits for others to leave the node: how much they have, what is
// the most that the Pod can get now, and how to ask for that.
func (c *Cluster) deferred(f *Finding, p *corev1.Pod, node *corev1.Node) {
	sum := pod.Requests(&corev1.Pod{Spec: p.Spec})
	for _, g := range grown(p) {
		if g.field != f.Field {
			continue
		}
		total := node.Status.Allocatable[g.name]
		free := total.DeepCopy()
		var most *corev1.Pod
		var has resource.Quantity
		for _, x := range slices.Concat(c.Others, list[*corev1.Pod](c, "Pod")) {
			if x.Spec.NodeName != node.Name || x.UID == p.UID && x.Name == p.Name || pod.IsTerminal(x) {
				continue
			}
			q := pod.Requests(x)[g.name]
			free.Sub(q)
			if q.Cmp(has) > 0 {
				most, has = x, q
			}
		}
		all := sum[g.name]
		free.Sub(all)
		free.Add(g.want) // what this one request may be, beside the Pod's others
		if most == nil || free.Cmp(g.want) >= 0 || free.Cmp(g.has) < 0 {
			return
		}
		f.Related = append(f.Related, objectOf("Pod", most))
		f.Numbers["free"] = free.String()
		f.Message = fmt.Sprintf("Pod %s runs on with the %s of %s that it had: its resize to %s is %s. Of the %s that "+
			"node %s has, other Pods hold so much that %s is the most it can have (Pod %s holds %s). The kubelet "+
			"tries again when one leaves.", p.Name, g.has.String(), g.name, g.want.String(), f.Numbers["reason"],
			total.String(), node.Name, free.String(), most.Name, has.String())
		patch := setPatch(strings.TrimPrefix(g.field, "spec."), free.String(), p)
		f.Want = free.String()
		f.Remedies = []Remedy{
			{Say: "ask for what the node has left: " + free.String(), Run: []string{fmt.Sprintf(
				"kubectl -n %s patch pod %s --subresource=resize --type=strategic -p %s", p.Namespace, p.Name,
				shellquote.Quoted(patch))}},
			{Say: fmt.Sprintf("or let Pod %s leave the node", most.Name)},
			{Say: "or make the Pod anew, where a node has as much: a resize never moves a Pod"}}
		return
	}
}

// resizedField matches the path of a container's request.
var resizedField = regexp.MustCompile(`^(initContainers|containers)\[(\d+)\]\.resources\.requests\.(.+)$`)

// setPatch is the strategic patch that sets one request of a container.
func setPatch(field, value string, p *corev1.Pod) string {
	m := resizedField.FindStringSubmatch(field)
	if m == nil {
		return "{}"
	}
	i, _ := strconv.Atoi(m[2]) // digits
	of := p.Spec.Containers
	if m[1] == "initContainers" {
		of = p.Spec.InitContainers
	}
	if i >= len(of) {
		return "{}"
	}
	return fmt.Sprintf(`{"spec":{%q:[{"name":%s,"resources":{"requests":{%s:%s}}}]}}`, m[1], jsonText(of[i].Name),
		jsonText(m[3]), jsonText(value))
}

// growth is a request of a Pod's spec that is more than what the Pod was given.
type growth struct {
	field     string
	name      corev1.ResourceName
	want, has resource.Quantity
}

// grown are the requests of a Pod that are more than what it was given.
func grown(p *corev1.Pod) []growth {
	var out []growth
	add := func(at string, want, has corev1.ResourceList) {
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if w, h := want[name], has[name]; w.Cmp(h) > 0 {
				out = append(out, growth{fmt.Sprintf("%s.resources.requests.%s", at, name), name, w, h})
			}
		}
	}
	for _, list := range []struct {
		name     string
		specs    []corev1.Container
		statuses []corev1.ContainerStatus
	}{{"initContainers", p.Spec.InitContainers, p.Status.InitContainerStatuses},
		{"containers", p.Spec.Containers, p.Status.ContainerStatuses}} {
		for i := range list.specs {
			for j := range list.statuses {
				s := &list.statuses[j]
				switch {
				case s.Name != list.specs[i].Name:
				case s.AllocatedResources != nil:
					add(fmt.Sprintf("spec.%s[%d]", list.name, i), list.specs[i].Resources.Requests,
						s.AllocatedResources)
				case s.Resources != nil:
					add(fmt.Sprintf("spec.%s[%d]", list.name, i), list.specs[i].Resources.Requests,
						s.Resources.Requests)
				}
			}
		}
	}
	return out
}
