package finding

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
	"github.com/gantry-project/gantry/internal/explain/workload"
)

// autoscaler finds what keeps a HorizontalPodAutoscaler from scaling.
func autoscaler(c *Cluster, o metav1.Object, self Object) []Finding {
	h, ok := o.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return nil
	}
	t := h.Spec.ScaleTargetRef
	target := c.Get(Object{t.Kind, h.Namespace, t.Name})
	if target == nil && c.Read(t.Kind) {
		return unscalable(h, self) // that it is not there the reference says
	}
	var out []Finding
	byItself := slices.ContainsFunc(h.Status.Conditions, func(x autoscalingv2.HorizontalPodAutoscalerCondition) bool {
		return x.Type == autoscalingv2.ScaledToZero && x.Status == corev1.ConditionTrue
	})
	if d, ok := target.(*appsv1.Deployment); ok && workload.Replicas(d.Spec.Replicas) == 0 && !byItself {
		out = append(out, Finding{Code: "AutoscalingDisabled", Stage: StageControl, Object: objectOf("Deployment", d),
			Field: "spec.replicas", Value: "0", Want: fmt.Sprint(minReplicas(h)), Related: []Object{self},
			Message: fmt.Sprintf("Autoscaler %s does nothing while its target Deployment %s has spec.replicas 0: "+
				"that switches it off, and minReplicas %d and maxReplicas %d do not count.", self.Name, t.Name,
				minReplicas(h),
				h.Spec.MaxReplicas),
			Numbers: map[string]string{"minReplicas": fmt.Sprint(minReplicas(h)),
				"maxReplicas": fmt.Sprint(h.Spec.MaxReplicas)},
			Remedies: []Remedy{{Say: "let it scale again", Run: []string{fmt.Sprintf(
				"kubectl -n %s scale deployment %s --replicas=%d", h.Namespace, t.Name, minReplicas(h))}}}})
	}
	out = append(out, unrequested(c, target, h, self)...)
	out = append(out, unscalable(h, self)...)
	out = append(out, unknownTarget(h, self)...)
	if len(out) == 0 {
		out = append(out, sharedPods(c, h, self)...)
	}
	for _, cond := range h.Status.Conditions {
		if cond.Status != corev1.ConditionFalse ||
			cond.Type != autoscalingv2.ScalingActive && cond.Type != autoscalingv2.AbleToScale ||
			cond.Reason == "AmbiguousSelector" && len(scaling(c, o, self)) > 0 {
			continue
		}
		if len(out) == 0 && !c.unserved(resourceMetrics, h) {
			out = append(out, notScaling(h, self, cond))
		}
	}
	if len(h.Status.Conditions) == 0 && c.Now.Sub(h.CreationTimestamp.Time) > settleTime {
		out = append(out, Finding{Code: "ControllersIdle", Stage: StageControl, Object: self,
			Field: "status.conditions",
			Message: fmt.Sprintf("No controller works on autoscaler %s: its status has been empty since it was "+
				"created. %s keeps the replicas that its spec says.", self.Name, t.Kind)})
	}
	return append(out, atBound(h, self)...)
}

func minReplicas(h *autoscalingv2.HorizontalPodAutoscaler) int32 {
	if h.Spec.MinReplicas == nil {
		return 1
	}
	return max(*h.Spec.MinReplicas, 1)
}

// worksSince reports whether an autoscaler has worked since a time: what it warned of before is
// over.
func worksSince(o metav1.Object, at time.Time) bool {
	h, ok := o.(*autoscalingv2.HorizontalPodAutoscaler)
	return ok && slices.ContainsFunc(h.Status.Conditions,
		func(x autoscalingv2.HorizontalPodAutoscalerCondition) bool {
			return x.Type == autoscalingv2.ScalingActive && x.Status == corev1.ConditionTrue &&
				!x.LastTransitionTime.Time.Before(at)
		})
}

// notScaling is the controller's own word for why an autoscaler does not scale.
func notScaling(h *autoscalingv2.HorizontalPodAutoscaler, self Object,
	cond autoscalingv2.HorizontalPodAutoscalerCondition) Finding {
	f := Finding{Code: "NotScaling", Stage: StageControl, Object: self, Field: "status.conditions", Value: cond.Reason,
		Message: fmt.Sprintf("Autoscaler %s does not scale (%s is False, %s): %s", self.Name, cond.Type, cond.Reason,
			cond.Message)}
	if strings.HasSuffix(cond.Reason, "ResourceMetric") && strings.Contains(cond.Message, "no metrics returned") {
		f.Message = fmt.Sprintf("Autoscaler %s does not scale (%s): the resource metrics API is served and has no "+
			"figures of the Pods of %s %s. Figures of a new Pod come after a minute; older Pods without any are "+
			"ones that metrics-server cannot read from their node.", self.Name, cond.Reason, h.Spec.ScaleTargetRef.Kind,
			h.Spec.ScaleTargetRef.Name)
		f.Remedies = []Remedy{{Say: "see which Pods have figures", Run: []string{"kubectl -n " + self.Namespace +
			" top pods"}}, {Say: "see what metrics-server says", Run: []string{
			"kubectl -n kube-system logs -l k8s-app=metrics-server"}}}
	}
	return f
}

// sharedPods finds another autoscaler whose target, another one, selects the same Pods.
func sharedPods(c *Cluster, h *autoscalingv2.HorizontalPodAutoscaler, self Object) []Finding {
	if !slices.ContainsFunc(h.Status.Conditions, func(x autoscalingv2.HorizontalPodAutoscalerCondition) bool {
		return x.Status == corev1.ConditionFalse && x.Reason == "AmbiguousSelector"
	}) {
		return nil
	}
	t := h.Spec.ScaleTargetRef
	mine := selectorOf(c.Get(Object{t.Kind, h.Namespace, t.Name}))
	if mine == nil {
		return nil
	}
	shared := metav1.FormatLabelSelector(mine)
	for _, x := range in[*autoscalingv2.HorizontalPodAutoscaler](c, "HorizontalPodAutoscaler", self.Namespace) {
		u := x.Spec.ScaleTargetRef
		theirs := selectorOf(c.Get(Object{u.Kind, x.Namespace, u.Name}))
		if u.Kind == t.Kind && u.Name == t.Name || theirs == nil || metav1.FormatLabelSelector(theirs) != shared {
			continue
		}
		return []Finding{{Code: "AutoscalersOverlap", Stage: StageControl, Object: self, Field: "spec.scaleTargetRef",
			Value: t.Name, Related: []Object{objectOf("HorizontalPodAutoscaler", x), {t.Kind, h.Namespace, t.Name},
				{u.Kind, x.Namespace, u.Name}},
			Message: fmt.Sprintf("Autoscalers %s and %s scale nothing: %s %s and %s %s select the same Pods (%s), so "+
				"the figures of one are those of the other.", h.Name, x.Name, t.Kind, t.Name, u.Kind, u.Name, shared),
			Remedies: []Remedy{{Say: fmt.Sprintf("create %s %s anew with a selector and labels of its own", u.Kind,
				u.Name), Run: []string{fmt.Sprintf("kubectl -n %s get %s %s -o yaml", x.Namespace,
				strings.ToLower(u.Kind), u.Name)}}}}}
	}
	return nil
}

// withoutReplicas reports whether a target is of a kind that has no number of replicas.
func withoutReplicas(t autoscalingv2.CrossVersionObjectReference) bool {
	return slices.Contains([]string{"DaemonSet", "Job", "CronJob", "Pod"}, t.Kind) && builtInGroup(t.APIVersion)
}

// unscalable finds a target of a kind that has no replicas, whether there is one or not.
func unscalable(h *autoscalingv2.HorizontalPodAutoscaler, self Object) []Finding {
	t := h.Spec.ScaleTargetRef
	if !withoutReplicas(t) {
		return nil
	}
	return []Finding{{Code: "NotScaling", Stage: StageControl, Object: self, Field: "spec.scaleTargetRef.kind",
		Value: t.Kind, Related: []Object{{t.Kind, self.Namespace, t.Name}},
		Message: fmt.Sprintf("Autoscaler %s scales nothing: a %s has no number of replicas to scale. What can "+
			"be scaled has a scale subresource, as Deployment, StatefulSet and ReplicaSet have.", self.Name, t.Kind),
		Remedies: []Remedy{{Say: "name a Deployment or StatefulSet in spec.scaleTargetRef, or delete the " +
			"autoscaler", Run: []string{kubectl(self, "delete", "")}}}}}
}

// unknownTarget finds a target of a kind that its API group does not have.
func unknownTarget(h *autoscalingv2.HorizontalPodAutoscaler, self Object) []Finding {
	t := h.Spec.ScaleTargetRef
	if !slices.ContainsFunc(h.Status.Conditions, func(x autoscalingv2.HorizontalPodAutoscalerCondition) bool {
		return x.Status == corev1.ConditionFalse && strings.Contains(x.Message, "no matches for kind")
	}) {
		return nil
	}
	f := Finding{Code: "NotScaling", Stage: StageControl, Object: self, Field: "spec.scaleTargetRef.kind",
		Value: t.Kind,
		Message: fmt.Sprintf("Autoscaler %s scales nothing: API version %s has no kind %s.", self.Name, t.APIVersion,
			t.Kind)}
	scalable := map[string]string{"Deployment": "apps/v1", "StatefulSet": "apps/v1", "ReplicaSet": "apps/v1",
		"ReplicationController": "v1"}
	set := map[string]string{}
	if version, ok := scalable[t.Kind]; ok {
		f.Field, f.Value, f.Want = "spec.scaleTargetRef.apiVersion", t.APIVersion, version
		set["apiVersion"] = version
	} else if near, how := Near(t.Kind, slices.Sorted(maps.Keys(scalable))); near != "" {
		f.Want = near
		f.Message += fmt.Sprintf(" There is %s of %s; %s.", near, scalable[near], how)
		set["kind"], set["apiVersion"] = near, scalable[near]
	} else {
		return []Finding{f}
	}
	raw, _ := json.Marshal(set) // strings always marshal
	f.Remedies = []Remedy{{Say: fmt.Sprintf("let it scale %s", f.Want), Run: []string{kubectl(self, "patch",
		"--type=merge -p "+shellquote.Quoted(fmt.Sprintf(`{"spec":{"scaleTargetRef":%s}}`, raw)))}}}
	return []Finding{f}
}

// unrequested finds containers without the request that a utilization is measured against.
func unrequested(c *Cluster, target metav1.Object, h *autoscalingv2.HorizontalPodAutoscaler,
	self Object) []Finding {
	if target == nil {
		return nil
	}
	spec, at := podSpecOf(target)
	if spec == nil {
		return nil
	}
	var out []Finding
	for i, m := range h.Spec.Metrics {
		var name corev1.ResourceName
		only := ""
		switch {
		case m.Resource != nil && m.Resource.Target.Type == autoscalingv2.UtilizationMetricType:
			name = m.Resource.Name
		case m.ContainerResource != nil:
			name, only = m.ContainerResource.Name, m.ContainerResource.Container
			if f, missing := c.unmeasured(spec, i, only, self); missing {
				out = append(out, f)
				continue
			}
			if m.ContainerResource.Target.Type != autoscalingv2.UtilizationMetricType {
				continue
			}
		default:
			continue
		}
		for j, x := range spec.Containers {
			_, limited := x.Resources.Limits[name] // a Pod's request where it has none
			whole := only == "" && spec.Resources != nil && len(spec.Resources.Requests) > 0
			if _, ok := x.Resources.Requests[name]; ok || limited || whole || only != "" && x.Name != only {
				continue
			}
			out = append(out, Finding{Code: "RequestMissing", Stage: StageControl, Object: objectOf(
				h.Spec.ScaleTargetRef.Kind, target), Related: []Object{self},
				Field: fmt.Sprintf("%s.containers[%d].resources.requests.%s", at, j, name),
				Message: fmt.Sprintf("Autoscaler %s aims at a utilization of %s, and container %s of %s %s requests "+
					"none: a utilization is a share of the request, so it cannot be computed.", self.Name, name, x.Name,
					h.Spec.ScaleTargetRef.Kind, target.GetName()),
				Remedies: []Remedy{{Say: fmt.Sprintf("give it a request of %s", name), Run: []string{fmt.Sprintf(
					"kubectl -n %s set resources %s %s -c %s --requests=%s=%s", target.GetNamespace(),
					objectOf(h.Spec.ScaleTargetRef.Kind, target).lower(), target.GetName(), x.Name, name,
					map[bool]string{true: "100m", false: "128Mi"}[name == corev1.ResourceCPU])}}}})
		}
	}
	return out
}

// unmeasured is a container that the metric of an index measures and that a template does not have.
func (c *Cluster) unmeasured(spec *corev1.PodSpec, i int, only string, self Object) (Finding, bool) {
	named := func(x corev1.Container) bool { return x.Name == only }
	if slices.ContainsFunc(spec.Containers, named) || slices.ContainsFunc(spec.InitContainers, named) {
		return Finding{}, false
	}
	f := Finding{Code: "ContainerMissing", Stage: StageControl, Object: self,
		Field: fmt.Sprintf("spec.metrics[%d].containerResource.container", i), Value: only,
		Message: fmt.Sprintf("Autoscaler %s measures container %s, and the template has no such container.",
			self.Name, only)}
	var have []string
	for _, x := range spec.Containers {
		have = append(have, x.Name)
	}
	if f.Want, _ = Near(only, have); f.Want == "" && len(have) == 1 {
		f.Want = have[0]
	}
	if f.Want != "" {
		f.Remedies = []Remedy{{Say: "measure container " + f.Want, Run: c.replaceCommand(self, f.Field, f.Want)}}
	}
	f.Message += " It has " + joined(have) + "."
	return f, true
}

// atBound notes an autoscaler that would scale further than its bounds let it.
func atBound(h *autoscalingv2.HorizontalPodAutoscaler, self Object) []Finding {
	for _, cond := range h.Status.Conditions {
		if cond.Type == autoscalingv2.ScalingLimited && cond.Status == corev1.ConditionTrue &&
			cond.Reason == "TooManyReplicas" {
			return []Finding{{Code: "AtMaxReplicas", Severity: Note, Stage: StageChange, Object: self,
				Field: "spec.maxReplicas", Value: fmt.Sprint(h.Spec.MaxReplicas),
				Numbers: map[string]string{"maxReplicas": fmt.Sprint(h.Spec.MaxReplicas)},
				Message: fmt.Sprintf("Autoscaler %s would scale further, and maxReplicas is %d.", self.Name,
					h.Spec.MaxReplicas)}}
		}
	}
	return nil
}

// bothScale says what two autoscalers of one target do: nothing, where the controller has noticed
// that they select the same Pods.
func bothScale(h, x *autoscalingv2.HorizontalPodAutoscaler) string {
	t := h.Spec.ScaleTargetRef
	text := fmt.Sprintf("Autoscalers %s and %s both scale %s %s", h.Name, x.Name, t.Kind, t.Name)
	for _, cond := range h.Status.Conditions {
		if cond.Status == corev1.ConditionFalse && cond.Reason == "AmbiguousSelector" {
			return text + fmt.Sprintf(", so neither does: condition %s is False (%s).", cond.Type, cond.Reason)
		}
	}
	return text + ": each undoes what the other does."
}

// withoutScaler is the remedy that deletes one autoscaler of two.
func withoutScaler(h *autoscalingv2.HorizontalPodAutoscaler, stays string) Remedy {
	at := objectOf("HorizontalPodAutoscaler", h)
	return Remedy{Say: fmt.Sprintf("delete %s, and let %s measure what that measured too", h.Name, stays),
		Run: []string{kubectl(at, "delete", "")}}
}
