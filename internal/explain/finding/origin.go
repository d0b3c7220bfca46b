package finding

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/workload"
	"github.com/gantry-project/gantry/internal/pod"
)

// origins finds what admission wrote into a Pod that its author did not: defaults of a LimitRange,
// the overhead and the selector of a RuntimeClass, what a PriorityClass says of preemption, and
// what webhooks changed. They are notes while the Pod is well, and threats while it waits for a
// node or runs out of memory: then the source is to blame, not the Pod.
func origins(c *Cluster, o metav1.Object, self Object) []Finding {
	p, ok := o.(*corev1.Pod)
	if !ok || pod.IsReady(p) {
		return nil
	}
	out := slices.Concat(c.fromLimitRange(p, self), c.fromRuntimeClass(p, self), c.fromPriorityClass(p, self),
		c.fromWebhook(p, self))
	waits := p.Spec.NodeName == "" && c.Now.Sub(p.CreationTimestamp.Time) > settleTime
	for i := range out {
		if out[i].Severity = Note; waits || strings.Contains(out[i].Field, ".default.memory") && ranOut(p) {
			out[i].Severity = Threat
		}
	}
	return out
}

// ranOut reports whether a container of a Pod was ended for its memory.
func ranOut(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Terminated != nil && s.State.Terminated.Reason == "OOMKilled" ||
			s.LastTerminationState.Terminated != nil && s.LastTerminationState.Terminated.Reason == "OOMKilled"
	})
}

// filledIn matches what the annotation of LimitRanger says that it set.
var filledIn = regexp.MustCompile(`([a-z0-9./, -]+?) (request|limit) for (?:init )?container ([^;]+)`)

// fromLimitRange are the defaults that a LimitRange gave a Pod's containers.
func (c *Cluster) fromLimitRange(p *corev1.Pod, self Object) []Finding {
	text, ok := strings.CutPrefix(p.Annotations["kubernetes.io/limit-ranger"], "LimitRanger plugin set: ")
	if !ok {
		return nil
	}
	var out []Finding
	for _, m := range filledIn.FindAllStringSubmatch(text, -1) {
		for name := range strings.SplitSeq(strings.TrimSpace(m[1]), ", ") {
			for _, l := range in[*corev1.LimitRange](c, "LimitRange", self.Namespace) {
				for i, item := range l.Spec.Limits {
					field, from := "defaultRequest", item.DefaultRequest
					if m[2] == "limit" {
						field, from = "default", item.Default
					}
					q, ok := from[corev1.ResourceName(name)]
					if !ok || item.Type != corev1.LimitTypeContainer {
						continue
					}
					f := Finding{Code: "SetByAdmission", Stage: StagePlacement,
						Object: objectOf("LimitRange", l),
						Field:  fmt.Sprintf("spec.limits[%d].%s.%s", i, field, name), Value: q.String(),
						Related: []Object{self},
						Numbers: map[string]string{name: q.String()},
						Message: fmt.Sprintf("The %s of %s of %s in container %s of Pod %s is the default of "+
							"LimitRange %s: its author stated none.", m[2], q.String(),
							name,
							strings.TrimSpace(m[3]), self.Name, l.Name), Remedies: c.stateOwn(p, m[2], name,
							strings.TrimSpace(m[3]))}
					c.overNodes(&f, corev1.ResourceName(name), q)
					out = append(out, f)
				}
			}
		}
	}
	return out
}

// DefaultLimit is the LimitRange of which a Pod's container has its limit of a resource, because
// its manifest stated none; ok is false where that is not so, or not known.
func (c *Cluster) DefaultLimit(p *corev1.Pod, container string, resource corev1.ResourceName) (name string, ok bool) {
	for _, f := range c.fromLimitRange(p, objectOf("Pod", p)) {
		if strings.HasSuffix(f.Field, ".default."+string(resource)) &&
			strings.Contains(f.Message, " in container "+container+" of Pod ") {
			return f.Object.Name, true
		}
	}
	return "", false
}

// stateOwn states a resource in the outermost owner of a Pod, so that no default is taken.
func (c *Cluster) stateOwn(p *corev1.Pod, what, name, container string) []Remedy {
	owner := c.outermost(p, objectOf("Pod", p))
	r := Remedy{Say: fmt.Sprintf("state a %s of %s in %s itself, or change the default", what, name, owner)}
	if owner.Kind != "Pod" && owner.Kind != "Job" && owner.Kind != "CronJob" && (name == "cpu" || name == "memory") {
		amount := map[string]string{"cpu": "100m", "memory": "128Mi"}[name]
		r.Run = []string{fmt.Sprintf("kubectl -n %s set resources %s %s -c %s --%ss=%s=%s", owner.Namespace,
			owner.lower(),
			owner.Name, container, what, name, amount)}
	}
	return []Remedy{r}
}

// fromRuntimeClass are the overhead and the node selector that a RuntimeClass gave a Pod.
func (c *Cluster) fromRuntimeClass(p *corev1.Pod, self Object) []Finding {
	if p.Spec.RuntimeClassName == nil {
		return nil
	}
	x, ok := get[*nodev1.RuntimeClass](c, "RuntimeClass", "", *p.Spec.RuntimeClassName)
	if !ok {
		return nil
	}
	f := Finding{Code: "SetByAdmission", Stage: StagePlacement, Object: objectOf("RuntimeClass", x),
		Related:  []Object{self},
		Remedies: []Remedy{{Say: "name another RuntimeClass, or none, or change this one"}}}
	var out []Finding
	for _, name := range slices.Sorted(maps.Keys(p.Spec.Overhead)) {
		q := p.Spec.Overhead[name]
		y := f
		y.Field, y.Value = "overhead.podFixed."+string(name), q.String()
		y.Numbers = map[string]string{string(name): y.Value}
		y.Message = fmt.Sprintf("Pod %s needs %s of %s more than its containers ask for: the overhead of "+
			"RuntimeClass %s.",
			self.Name, y.Value, name, x.Name)
		out = append(out, y)
	}
	if x.Scheduling == nil {
		return out
	}
	for _, key := range slices.Sorted(maps.Keys(x.Scheduling.NodeSelector)) {
		y := f
		y.Field, y.Value = "scheduling.nodeSelector", key+"="+x.Scheduling.NodeSelector[key]
		y.NodeLabels = []string{y.Value}
		y.Message = fmt.Sprintf("The node selector %s of Pod %s is that of RuntimeClass %s.", y.Value, self.Name,
			x.Name)
		out = append(out, y)
	}
	return out
}

// fromPriorityClass is a preemption policy that a PriorityClass gave a Pod.
func (c *Cluster) fromPriorityClass(p *corev1.Pod, self Object) []Finding {
	x, ok := get[*schedulingv1.PriorityClass](c, "PriorityClass", "", p.Spec.PriorityClassName)
	if !ok || x.PreemptionPolicy == nil || *x.PreemptionPolicy != corev1.PreemptNever {
		return nil
	}
	return []Finding{{Code: "SetByAdmission", Stage: StagePlacement, Object: objectOf("PriorityClass", x),
		Field: "preemptionPolicy", Value: "Never", Want: "PreemptLowerPriority", Related: []Object{self},
		Numbers: map[string]string{"value": fmt.Sprint(x.Value)}, Message: fmt.Sprintf("Pod %s preempts nobody: its "+
			"PriorityClass %s (value %d) says preemptionPolicy Never.", self.Name, x.Name, x.Value),
		Remedies: []Remedy{{Say: "name a class that may preempt: a class's policy cannot be changed"}}}}
}

// fromWebhook are the fields of a Pod that its controller's template does not have so: a mutating
// webhook or policy wrote them.
func (c *Cluster) fromWebhook(p *corev1.Pod, self Object) []Finding {
	r := metav1.GetControllerOf(p)
	if r == nil {
		return nil
	}
	owner := c.Get(Object{r.Kind, self.Namespace, r.Name})
	if owner == nil {
		return nil
	}
	t := workload.Template(owner)
	if t == nil || c.ofOlderTemplate(p, owner) {
		return nil
	}
	class := map[string]string{}
	if n := p.Spec.RuntimeClassName; n != nil {
		if x, ok := get[*nodev1.RuntimeClass](c, "RuntimeClass", "", *n); ok && x.Scheduling != nil {
			class = x.Scheduling.NodeSelector
		}
	}
	var out []Finding
	changed := func(field, value, was string) {
		f := Finding{Code: "ChangedByAdmission", Stage: StageCreation, Object: self, Field: field, Value: value,
			Want:    was,
			Related: []Object{objectOf(r.Kind, owner)}, Message: fmt.Sprintf("%s of Pod %s is %s, and the template "+
				"of %s %s says %s: an admission webhook or policy changed "+
				"it.", field, self.Name, value, r.Kind, r.Name,
				orNone(strings.Fields(was), "nothing of it"))}
		c.blameMutation(&f, value)
		out = append(out, f)
	}
	for _, key := range slices.Sorted(maps.Keys(p.Spec.NodeSelector)) {
		if v := p.Spec.NodeSelector[key]; t.Spec.NodeSelector[key] != v && class[key] != v {
			changed("spec.nodeSelector["+key+"]", key+"="+v, t.Spec.NodeSelector[key])
			out[len(out)-1].NodeLabels = []string{key + "=" + v}
		}
	}
	for i := range p.Spec.Containers {
		x := &p.Spec.Containers[i]
		j := slices.IndexFunc(t.Spec.Containers, func(y corev1.Container) bool { return y.Name == x.Name })
		at := fmt.Sprintf("spec.containers[%d]", i)
		if j < 0 {
			changed(at, x.Name, "")
		} else if y := &t.Spec.Containers[j]; y.Image != x.Image {
			changed(at+".image", x.Image, y.Image)
		} else if strings.Join(y.Command, " ") != strings.Join(x.Command, " ") {
			changed(at+".command", strings.Join(x.Command, " "), strings.Join(y.Command, " "))
		}
	}
	for i := range p.Spec.InitContainers {
		if n := p.Spec.InitContainers[i].Name; !slices.ContainsFunc(t.Spec.InitContainers,
			func(y corev1.Container) bool { return y.Name == n }) {
			changed(fmt.Sprintf("spec.initContainers[%d]", i), n, "")
		}
	}
	if t.Spec.SchedulerName != "" && p.Spec.SchedulerName != t.Spec.SchedulerName {
		changed("spec.schedulerName", p.Spec.SchedulerName, t.Spec.SchedulerName)
	}
	return out
}

// blameMutation makes a change the matter of the webhook or policy that made it, where that is
// known: the one whose text has the value, or the only one there is.
func (c *Cluster) blameMutation(f *Finding, value string) {
	_, bare, _ := strings.Cut(value, "=")
	var all []Object
	for _, kind := range []string{"MutatingAdmissionPolicy", "MutatingWebhookConfiguration"} {
		for _, o := range c.Objects[kind] {
			all = append(all, objectOf(kind, o))
			for _, l := range leavesOf(o) {
				if word(l.value, value) || bare != "" && word(l.value, bare) {
					f.Related = append(f.Related, f.Object)
					f.Object, f.Field, f.Value, f.Want = objectOf(kind, o), l.path, l.value, ""
					return
				}
			}
		}
	}
	if len(all) == 1 {
		f.Related = append(f.Related, f.Object)
		f.Object, f.Want = all[0], ""
		f.Field = map[string]string{"MutatingWebhookConfiguration": "webhooks[0]",
			"MutatingAdmissionPolicy": "spec.mutations"}[all[0].Kind]
	}
}

// overNodes adds to a default that no node can hold what the largest node has.
func (c *Cluster) overNodes(f *Finding, name corev1.ResourceName, q resource.Quantity) {
	most, on := largest(list[*corev1.Node](c, "Node"), name)
	if on == nil || q.Cmp(most) <= 0 {
		return
	}
	f.Numbers["allocatable"], f.Want = most.String(), most.String()
	f.Message += fmt.Sprintf(" The largest node, %s, has %s.", on.Name, most.String())
}

// refusedByDefault finds defaults of a LimitRange that made a Pod ask for more of a quota than it
// allows, though its template states nothing.
func (c *Cluster) refusedByDefault(self Object, o metav1.Object, words string) []Finding {
	m := quotaWords.FindStringSubmatch(words)
	spec, _ := podSpecOf(o)
	if m == nil || spec == nil {
		return nil
	}
	var out []Finding
	hard, used := pairs(m[4]), pairs(m[3])
	for _, counted := range slices.Sorted(maps.Keys(hard)) {
		limits := strings.HasPrefix(counted, "limits.")
		name := corev1.ResourceName(strings.TrimPrefix(strings.TrimPrefix(counted, "limits."), "requests."))
		if !slices.ContainsFunc(spec.Containers, func(x corev1.Container) bool {
			_, requested := x.Resources.Requests[name]
			_, limited := x.Resources.Limits[name]
			return !limited && (limits || !requested)
		}) {
			continue
		}
		for _, l := range in[*corev1.LimitRange](c, "LimitRange", self.Namespace) {
			for i, item := range l.Spec.Limits {
				field, q, ok := defaultOf(item, name, limits)
				if !ok {
					continue
				}
				f := Finding{Code: "SetByAdmission", Severity: Threat, Stage: StageCreation,
					Object: objectOf("LimitRange", l), Field: fmt.Sprintf("spec.limits[%d].%s.%s", i, field, name),
					Value: q.String(), Related: []Object{self, {"ResourceQuota", self.Namespace, m[1]}},
					Numbers: map[string]string{"hard": hard[counted], "used": used[counted], "default": q.String()},
					Message: fmt.Sprintf("Containers of %s %s state no %s, so LimitRange %s gives each %s "+
						"(limits[%d].%s), and quota %s allows %s of %s, of which %s are used.", self.Kind, self.Name,
						name, l.Name, q.String(), i, field, m[1], hard[counted], counted, used[counted])}
				f.Remedies = []Remedy{{Say: fmt.Sprintf("state less in %s, or lower the default", self)}}
				if self.Kind != "Job" && self.Kind != "CronJob" && self.Kind != "Pod" {
					what, value := "requests", hard[counted]
					if limits {
						what = "limits"
					}
					f.Remedies[0].Run = []string{fmt.Sprintf("kubectl -n %s set resources %s %s --%s=%s=%s",
						self.Namespace, self.lower(), self.Name, what, name, smallAmount(name, value))}
				}
				out = append(out, f)
			}
		}
	}
	return out
}

// smallAmount is an amount of a resource that most quotas have room for.
func smallAmount(name corev1.ResourceName, otherwise string) string {
	if s := map[corev1.ResourceName]string{"cpu": "100m", "memory": "128Mi"}[name]; s != "" {
		return s
	}
	return otherwise
}

// defaultOf is the default request or limit that an item of a LimitRange gives to containers; a
// request without one is that of the limit.
func defaultOf(item corev1.LimitRangeItem, name corev1.ResourceName, limits bool) (string, resource.Quantity, bool) {
	if item.Type != corev1.LimitTypeContainer {
		return "", resource.Quantity{}, false
	}
	if q, ok := item.DefaultRequest[name]; ok && !limits {
		return "defaultRequest", q, true
	}
	q, ok := item.Default[name]
	return "default", q, ok
}
