package finding

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		out = append(out, Finding{Code: "QuotaUsedUp", Severity: Threat, Stage: StageCreation, Object: self,
			Field: "spec.hard." + string(name), Value: hard.String(),
			Numbers: map[string]string{"hard": hard.String(), "used": used.String()},
			Message: fmt.Sprintf("Quota %s of namespace %s is used up: %s of %s %s are taken, so nothing more that "+
				"counts is created.", self.Name, self.Namespace, used.String(), hard.String(), name),
			Remedies: []Remedy{{Say: fmt.Sprintf("raise %s of the quota", name)}}})
	}
	return out
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
			if item.Type != corev1.LimitTypeContainer {
				continue
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

// outOfRange compares a container with one item of a LimitRange, as its template says.
func outOfRange(l *corev1.LimitRange, i int, x *corev1.Container, at owner) []Finding {
	item := l.Spec.Limits[i]
	var out []Finding
	say := func(name corev1.ResourceName, field, value, bound, limit, verb string) {
		list := at.at[:strings.LastIndex(at.at, "[")]
		list = list[strings.LastIndex(list, ".")+1:]
		patch := fmt.Sprintf(`{"spec":{"template":{"spec":{%q:[{"name":%q,"resources":%s}]}}}}`, list, x.Name,
			resourcesWithin(x, name, field, limit))
		f := Finding{Code: "OutOfLimitRange", Stage: StageCreation, Object: at.object,
			Field: fmt.Sprintf("%s.resources.%s.%s", at.at, field, name), Value: value, Want: limit,
			Related: []Object{objectOf("LimitRange", l)}, Numbers: map[string]string{bound: limit, field: value},
			Message: fmt.Sprintf(
				"Container %s of %s %s has %s %s of %s, and LimitRange %s allows %s %s (limits[%d].%s): the API "+
					"server refuses such Pods.", x.Name, at.object.Kind, at.object.Name, field, value, name,
				l.Name,
				verb, limit, i, bound)}
		if at.object.Kind != "Job" && at.object.Kind != "CronJob" {
			f.Remedies = []Remedy{{Say: fmt.Sprintf("set %s of %s to %s", field, name, limit),
				Run: []string{kubectl(at.object, "patch", "--type=strategic -p '"+patch+"'")}}}
		}
		f.Remedies = append(f.Remedies, Remedy{Say: fmt.Sprintf("or change %s of LimitRange %s", bound, l.Name)})
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
