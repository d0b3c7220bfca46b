package finding

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
)

// quota finds resources of which a ResourceQuota has none left, or that were never counted.
func quota(c *Cluster, o metav1.Object, self Object) []Finding {
	q, ok := o.(*corev1.ResourceQuota)
	if !ok {
		return nil
	}
	if len(q.Spec.Hard) > 0 && len(q.Status.Hard) == 0 {
		if c.Now.Sub(q.CreationTimestamp.Time) < settleTime {
			return nil
		}
		return []Finding{{Code: "ControllersIdle", Stage: StageControl, Object: self, Field: "status.hard",
			Message: fmt.Sprintf("No controller has counted quota %s: its status is empty, and while it is, what it "+
				"limits cannot be created.", self.Name)}}
	}
	var out []Finding
	for _, name := range slices.Sorted(maps.Keys(q.Status.Hard)) {
		hard, used := q.Status.Hard[name], q.Status.Used[name]
		if used.Cmp(hard) < 0 {
			continue
		}
		out = append(out, Finding{Code: "QuotaUsedUp", Severity: c.refusing(q), Stage: StageCreation, Object: self,
			Field: "spec.hard." + string(name), Value: hard.String(),
			Numbers: map[string]string{"hard": hard.String(), "used": used.String()},
			Message: fmt.Sprintf("Quota %s of namespace %s is used up: %s of %s %s are taken, so nothing more that "+
				"counts is created.", self.Name, self.Namespace, used.String(), hard.String(), name),
			Remedies: []Remedy{{Say: fmt.Sprintf("raise %s of the quota", name)}}})
	}
	return out
}

// refusing is how bad it is that a quota has nothing left: a note while nobody has asked for more.
func (c *Cluster) refusing(q *corev1.ResourceQuota) Severity {
	for i := range c.Events {
		e := &c.Events[i]
		if e.Namespace == q.Namespace && strings.Contains(e.Message, "exceeded quota: "+q.Name+",") {
			return Threat
		}
	}
	return Note
}

// limitRanges finds containers of a workload that a LimitRange of the namespace does not allow.
func limitRanges(c *Cluster, o metav1.Object, self Object) []Finding {
	spec, at := podSpecOf(o)
	if _, isPod := o.(*corev1.Pod); spec == nil || isPod {
		return nil
	}
	var out []Finding
	for _, l := range in[*corev1.LimitRange](c, "LimitRange", self.Namespace) {
		for i, item := range l.Spec.Limits {
			out = append(out, claimRange(o, l, i, self)...)
			if item.Type == corev1.LimitTypePod {
				out = append(out, podRange(l, i, spec, owner{self, at})...)
			}
			if item.Type != corev1.LimitTypeContainer {
				continue
			}
			for j := range spec.InitContainers {
				out = append(out, outOfRange(l, i, &spec.InitContainers[j], owner{self,
					fmt.Sprintf("%s.initContainers[%d]", at, j)})...)
			}
			for j := range spec.Containers {
				out = append(out, outOfRange(l, i, &spec.Containers[j], owner{self, fmt.Sprintf("%s.containers[%d]", at,
					j)})...)
			}
		}
	}
	return out
}

// owner is a container's place: the object and the path in it.
type owner struct {
	object Object
	at     string
}

// resourcesWithin sets a container's request or limit, and the other where it would not fit to it.
func resourcesWithin(x *corev1.Container, name corev1.ResourceName, field, value string) []byte {
	set := map[string]map[corev1.ResourceName]string{field: {name: value}}
	to := resource.MustParse(value) // a quantity of the API
	if r, ok := x.Resources.Requests[name]; ok && field == "limits" && r.Cmp(to) > 0 {
		set["requests"] = map[corev1.ResourceName]string{name: value}
	}
	if l, ok := x.Resources.Limits[name]; ok && field == "requests" && l.Cmp(to) < 0 {
		set["limits"] = map[corev1.ResourceName]string{name: value}
	}
	raw, _ := json.Marshal(set) // strings always marshal
	return raw
}

// resourcesPatch is the command that sets resources of a container of a template.
func resourcesPatch(at owner, container string, resources []byte) []string {
	path, list := at.at[:strings.LastIndex(at.at, ".")], at.at[strings.LastIndex(at.at, ".")+1:]
	list = list[:strings.Index(list, "[")]
	patch := fmt.Sprintf(`{%q:[{"name":%s,"resources":%s}]}`, list, jsonText(container), resources)
	for _, part := range slices.Backward(strings.Split(path, ".")) {
		patch = fmt.Sprintf("{%q:%s}", part, patch)
	}
	if at.object.Kind == "Job" {
		return []string{recreateJob(at.object, patch)}
	}
	return []string{kubectl(at.object, "patch", "--type=strategic -p "+shellquote.Quoted(patch))}
}

// outOfRange compares a container with one item of a LimitRange, as its template says.
func outOfRange(l *corev1.LimitRange, i int, x *corev1.Container, at owner) []Finding {
	item := l.Spec.Limits[i]
	out := beyondDefault(l, i, x, at)
	say := func(name corev1.ResourceName, field, value, bound, limit, verb string) {
		f := Finding{Code: "OutOfLimitRange", Stage: StageCreation, Object: at.object,
			Field: fmt.Sprintf("%s.resources.%s.%s", at.at, field, name), Value: value, Want: limit,
			Related: []Object{objectOf("LimitRange", l)}, Numbers: map[string]string{bound: limit, field: value},
			Message: fmt.Sprintf(
				"Container %s of %s %s has %s %s of %s, and LimitRange %s allows %s %s (limits[%d].%s): the API "+
					"server refuses such Pods.", x.Name, at.object.Kind, at.object.Name, field, value, name,
				l.Name,
				verb, limit, i, bound)}
		f.Remedies = append(f.Remedies, Remedy{Say: fmt.Sprintf("set %s of %s to %s", field, name, limit),
			Run: resourcesPatch(at, x.Name, resourcesWithin(x, name, field, limit))},
			Remedy{Say: fmt.Sprintf("or change %s of LimitRange %s", bound, l.Name)})
		out = append(out, f)
	}
	for _, name := range slices.Sorted(maps.Keys(item.Max)) {
		most := item.Max[name]
		if q, ok := x.Resources.Limits[name]; ok && q.Cmp(most) > 0 {
			say(name, "limits", q.String(), "max", most.String(), "at most")
		} else if q, ok := x.Resources.Requests[name]; ok && q.Cmp(most) > 0 {
			say(name, "requests", q.String(), "max", most.String(), "at most")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(item.Min)) {
		least := item.Min[name]
		if q, ok := x.Resources.Requests[name]; ok && q.Cmp(least) < 0 {
			say(name, "requests", q.String(), "min", least.String(), "at least")
		} else if q, ok := x.Resources.Limits[name]; ok && q.Cmp(least) < 0 {
			say(name, "limits", q.String(), "min", least.String(), "at least")
		}
	}
	return out
}

// podRange compares the sum of a Pod's containers with an item of a LimitRange for Pods.
func podRange(l *corev1.LimitRange, i int, spec *corev1.PodSpec, at owner) []Finding {
	item := l.Spec.Limits[i]
	out := podMinimum(l, i, spec, at)
	for _, name := range slices.Sorted(maps.Keys(item.Max)) {
		most := item.Max[name]
		var limits, requests resource.Quantity
		for j := range spec.Containers {
			limits.Add(spec.Containers[j].Resources.Limits[name])
			requests.Add(spec.Containers[j].Resources.Requests[name])
		}
		field, sum := "limits", limits
		if limits.Cmp(most) <= 0 {
			field, sum = "requests", requests
		}
		if sum.Cmp(most) <= 0 {
			continue
		}
		out = append(out, Finding{Code: "OutOfLimitRange", Stage: StageCreation, Object: at.object,
			Field: fmt.Sprintf("%s.containers[*].resources.%s.%s", at.at, field, name), Value: sum.String(),
			Want: most.String(), Related: []Object{objectOf("LimitRange", l)},
			Numbers: map[string]string{"max": most.String(), field: sum.String()},
			Message: fmt.Sprintf("The %s of the containers of %s %s come to %s of %s, and LimitRange %s allows a "+
				"Pod %s (limits[%d].max): the API server refuses such Pods.", field, at.object.Kind, at.object.Name,
				sum.String(),
				name, l.Name, most.String(), i),
			Remedies: []Remedy{{Say: fmt.Sprintf("lower them to %s together, or change max of LimitRange %s",
				most.String(), l.Name)}}})
	}
	return out
}

// podMinimum compares the sum of a Pod's requests, and of its limits where all state one, with the
// least that an item of a LimitRange for Pods allows.
func podMinimum(l *corev1.LimitRange, i int, spec *corev1.PodSpec, at owner) []Finding {
	least := l.Spec.Limits[i].Min
	var out []Finding
	for _, name := range slices.Sorted(maps.Keys(least)) {
		var sum resource.Quantity
		best, stated := 0, false
		for j := range spec.Containers {
			q, ok := spec.Containers[j].Resources.Requests[name]
			if !ok {
				q, ok = spec.Containers[j].Resources.Limits[name]
			}
			if before := spec.Containers[best].Resources.Requests[name]; ok && q.Cmp(before) > 0 {
				best = j
			}
			stated = stated || ok
			sum.Add(q)
		}
		lower := least[name]
		if !stated || sum.Cmp(lower) >= 0 {
			continue
		}
		out = append(out, Finding{Code: "OutOfLimitRange", Stage: StageCreation, Object: at.object,
			Field: fmt.Sprintf("%s.containers[%d].resources.requests.%s", at.at, best, name), Value: sum.String(),
			Want: lower.String(), Related: []Object{objectOf("LimitRange", l)},
			Numbers: map[string]string{"min": lower.String(), "requests": sum.String()},
			Message: fmt.Sprintf("The containers of %s %s request %s of %s together, and LimitRange %s wants at least "+
				"%s of a Pod (limits[%d].min): the API server refuses such Pods.", at.object.Kind, at.object.Name,
				sum.String(), name, l.Name, lower.String(), i),
			Remedies: []Remedy{{Say: fmt.Sprintf("raise them to %s together, or change min of LimitRange %s",
				lower.String(), l.Name)}}})
	}
	return out
}

// claimRange compares claim templates with an item of a LimitRange for claims.
func claimRange(o metav1.Object, l *corev1.LimitRange, i int, self Object) []Finding {
	s, ok := o.(*appsv1.StatefulSet)
	item := l.Spec.Limits[i]
	if !ok || item.Type != corev1.LimitTypePersistentVolumeClaim {
		return nil
	}
	var out []Finding
	for j := range s.Spec.VolumeClaimTemplates {
		q := s.Spec.VolumeClaimTemplates[j].Spec.Resources.Requests[corev1.ResourceStorage]
		f := Finding{Code: "OutOfLimitRange", Stage: StageCreation, Object: self, Value: q.String(),
			Field:   fmt.Sprintf("spec.volumeClaimTemplates[%d].spec.resources.requests.storage", j),
			Related: []Object{objectOf("LimitRange", l)}}
		bound := ""
		if most, ok := item.Max[corev1.ResourceStorage]; ok && q.Cmp(most) > 0 {
			bound, f.Want = "max", most.String()
		} else if least, ok := item.Min[corev1.ResourceStorage]; ok && q.Cmp(least) < 0 {
			bound, f.Want = "min", least.String()
		} else {
			continue
		}
		f.Numbers = map[string]string{bound: f.Want, "requests": f.Value}
		f.Message = fmt.Sprintf("Claims of StatefulSet %s ask for %s, and LimitRange %s has %s %s (limits[%d].%s): "+
			"the API server refuses them.", self.Name, f.Value, l.Name, bound, f.Want, i, bound)
		f.Remedies = []Remedy{{Say: "make the StatefulSet anew with " + f.Want + ": its claim templates cannot be " +
			"changed"}}
		out = append(out, f)
	}
	return out
}

// beyondDefault finds a request above the default limit that a LimitRange gives, and a limit more
// times the request than it allows.
func beyondDefault(l *corev1.LimitRange, i int, x *corev1.Container, at owner) []Finding {
	item := l.Spec.Limits[i]
	var out []Finding
	add := func(field, value, want, bound, text string) {
		out = append(out, Finding{Code: "OutOfLimitRange", Stage: StageCreation, Object: at.object,
			Field: at.at + ".resources." + field, Value: value, Want: want, Related: []Object{objectOf("LimitRange",
				l)},
			Numbers: map[string]string{bound: want, "value": value},
			Message: fmt.Sprintf("Container %s of %s %s %s (LimitRange %s, limits[%d].%s): the API server refuses "+
				"such Pods.", x.Name, at.object.Kind, at.object.Name, text, l.Name, i, bound)})
	}
	for _, name := range slices.Sorted(maps.Keys(item.Default)) {
		limit := item.Default[name]
		q, ok := x.Resources.Requests[name]
		if _, own := x.Resources.Limits[name]; ok && !own && q.Cmp(limit) > 0 {
			add("requests."+string(name), q.String(), limit.String(), "default", fmt.Sprintf("requests %s of %s and "+
				"states no limit, so it gets the default one of %s", q.String(), name, limit.String()))
			out[len(out)-1].Remedies = ownLimit(at.object, x.Name, string(name), q.String())
		}
	}
	full := withDefaults(item, x)
	for _, name := range slices.Sorted(maps.Keys(item.MaxLimitRequestRatio)) {
		most := item.MaxLimitRequestRatio[name]
		r, ok1 := full.Resources.Requests[name]
		m, ok2 := full.Resources.Limits[name]
		if !ok1 || !ok2 || r.MilliValue() <= 0 ||
			m.AsApproximateFloat64() <= r.AsApproximateFloat64()*most.AsApproximateFloat64() {
			continue
		}
		field, value := "limits."+string(name), m.String()
		limit, request := "a limit of "+m.String(), "a request of "+r.String()
		if _, own := x.Resources.Limits[name]; !own {
			limit = fmt.Sprintf("no limit of its own, so the default one of %s", m.String())
			field, value = "requests."+string(name), r.String()
		}
		if _, own := x.Resources.Requests[name]; !own {
			request = fmt.Sprintf("no request of its own, so the default one of %s", r.String())
		}
		add(field, value, most.String(), "maxLimitRequestRatio", fmt.Sprintf("has %s, and %s, of %s: that is %s "+
			"times, and more than %s times are not allowed", limit, request, name, times(m, r), most.String()))
		f := &out[len(out)-1]
		f.Numbers["limit"], f.Numbers["request"], f.Numbers["ratio"] = m.String(), r.String(), times(m, r)
		f.Remedies = withinRatio(at, full, name, most)
	}
	return out
}

// times is how many times a quantity is another, with at most two digits behind the point.
func times(a, b resource.Quantity) string {
	hundredths := int64(100 * a.AsApproximateFloat64() / b.AsApproximateFloat64())
	text := fmt.Sprintf("%d.%02d", hundredths/100, hundredths%100)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// withDefaults is a container with what the API server and an item of a LimitRange fill in: a limit
// is also the request where none is stated.
func withDefaults(item corev1.LimitRangeItem, x *corev1.Container) *corev1.Container {
	x = x.DeepCopy()
	fill := func(to *corev1.ResourceList, from corev1.ResourceList) {
		for name, q := range from {
			if _, has := (*to)[name]; !has {
				if *to == nil {
					*to = corev1.ResourceList{}
				}
				(*to)[name] = q
			}
		}
	}
	fill(&x.Resources.Requests, x.Resources.Limits)
	fill(&x.Resources.Requests, item.DefaultRequest)
	fill(&x.Resources.Limits, item.Default)
	return x
}

// withinRatio lowers a limit to the times of the request that a LimitRange allows.
func withinRatio(at owner, x *corev1.Container, name corev1.ResourceName, most resource.Quantity) []Remedy {
	limit, request := x.Resources.Limits[name], x.Resources.Requests[name]
	lower, more := limit.DeepCopy(), request.DeepCopy()
	if name == corev1.ResourceCPU {
		lower.SetMilli(request.MilliValue() * most.MilliValue() / 1000)
		more.SetMilli((limit.MilliValue()*1000 + most.MilliValue() - 1) / most.MilliValue())
	} else {
		lower.Set(request.Value() * most.MilliValue() / 1000)
		more.Set((limit.Value()*1000 + most.MilliValue() - 1) / most.MilliValue())
	}
	return []Remedy{
		{Say: fmt.Sprintf("raise the request of container %s to %s", x.Name, more.String()),
			Run: resourcesPatch(at, x.Name, resourcesWithin(x, name, "requests", more.String()))},
		{Say: fmt.Sprintf("or lower its limit to %s", lower.String()),
			Run: resourcesPatch(at, x.Name, resourcesWithin(x, name, "limits", lower.String()))}}
}
