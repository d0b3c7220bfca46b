package finding

import (
	"fmt"
	"net/netip"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const completionIndex = "JOB_COMPLETION_INDEX"

// indexUnset finds a Job whose containers use the index of their Pod, and whose Pods have none.
func indexUnset(_ *Cluster, o metav1.Object, self Object) []Finding {
	var spec *batchv1.JobSpec
	at := "spec"
	switch x := o.(type) {
	case *batchv1.Job:
		spec = &x.Spec
	case *batchv1.CronJob:
		spec, at = &x.Spec.JobTemplate.Spec, "spec.jobTemplate.spec"
	}
	if spec == nil || ptr.Deref(spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion {
		return nil
	}
	for i := range spec.Template.Spec.Containers {
		x := &spec.Template.Spec.Containers[i]
		own := false
		words := append(append([]string{}, x.Command...), x.Args...)
		for _, e := range x.Env {
			own = own || e.Name == completionIndex
			words = append(words, e.Value)
		}
		if own || !strings.Contains(strings.Join(words, " "), completionIndex) {
			continue
		}
		f := Finding{Code: "IndexUnset", Severity: Threat, Stage: StageRun, Object: self, Field: at + ".completionMode",
			Value: string(batchv1.NonIndexedCompletion), Want: string(batchv1.IndexedCompletion),
			Message: fmt.Sprintf("Container %s of %s %s uses $%s, which only Pods of an Indexed Job have: its "+
				"completionMode is NonIndexed, so the variable is not set.", x.Name, self.Kind, self.Name,
				completionIndex),
			Remedies: []Remedy{{Say: "make the Job anew with completionMode Indexed: that of a Job cannot be changed"}}}
		if self.Kind == "CronJob" {
			n := ptr.Deref(spec.Completions, ptr.Deref(spec.Parallelism, 1)) // an Indexed Job has to say it
			f.Remedies = []Remedy{{Say: "let its next Jobs be Indexed", Run: []string{kubectl(self, "patch",
				fmt.Sprintf(`--type=merge -p '{"spec":{"jobTemplate":{"spec":{"completionMode":"Indexed",`+
					`"completions":%d}}}}'`, n))}}}
		}
		return []Finding{f}
	}
	return nil
}

// externalIPs finds an external IP and port that another Service has too: one of them gets the
// traffic.
func externalIPs(c *Cluster, o metav1.Object, self Object) []Finding {
	s, ok := o.(*corev1.Service)
	if !ok {
		return nil
	}
	var out []Finding
	for i, ip := range s.Spec.ExternalIPs {
		for _, x := range list[*corev1.Service](c, "Service") {
			if x.Name == s.Name && x.Namespace == s.Namespace {
				continue
			}
			for _, other := range x.Spec.ExternalIPs {
				for _, p := range s.Spec.Ports {
					if other != ip || !hasPort(x, p) {
						continue
					}
					out = append(out, Finding{Code: "ExternalIPShared", Severity: Threat, Stage: StageTraffic,
						Object: self, Field: fmt.Sprintf("spec.externalIPs[%d]", i), Value: ip,
						Related: []Object{objectOf("Service", x)},
						Numbers: map[string]string{"port": fmt.Sprint(p.Port)},
						Message: fmt.Sprintf("External IP %s with port %d is that of Service %s and of Service "+
							"%s%s: only one of them gets its "+
							"traffic.", ip, p.Port, self.Name, x.Name, where(objectOf("Service",
							x))),
						Remedies: []Remedy{{Say: "give one of them another address or port"}}})
				}
			}
		}
	}
	return out
}

func hasPort(s *corev1.Service, p corev1.ServicePort) bool {
	for _, x := range s.Spec.Ports {
		if x.Port == p.Port && x.Protocol == p.Protocol {
			return true
		}
	}
	return false
}

// loopbackPorts finds host ports that only programs of the node itself reach.
func loopbackPorts(_ *Cluster, o metav1.Object, self Object) []Finding {
	spec, at := podSpecOf(o)
	if spec == nil {
		return nil
	}
	var out []Finding
	for i := range spec.Containers {
		for k, p := range spec.Containers[i].Ports {
			ip, err := netip.ParseAddr(p.HostIP)
			if p.HostPort == 0 || err != nil || !ip.IsLoopback() {
				continue
			}
			out = append(out, Finding{Code: "HostPortLoopback", Severity: Note, Stage: StageTraffic, Object: self,
				Field: fmt.Sprintf("%s.containers[%d].ports[%d].hostIP", at, i, k), Value: p.HostIP,
				Numbers: map[string]string{"hostPort": fmt.Sprint(p.HostPort)},
				Message: fmt.Sprintf("Host port %d of container %s is open at %s only (hostIP): programs on the "+
					"node reach it, nobody else does.", p.HostPort, spec.Containers[i].Name, p.HostIP)})
		}
	}
	return out
}

// claimsGo tells of a StatefulSet whose claims, and their data, go with its Pods or with itself.
func claimsGo(_ *Cluster, o metav1.Object, self Object) []Finding {
	s, ok := o.(*appsv1.StatefulSet)
	if !ok || s.Spec.PersistentVolumeClaimRetentionPolicy == nil || len(s.Spec.VolumeClaimTemplates) == 0 {
		return nil
	}
	p := s.Spec.PersistentVolumeClaimRetentionPolicy
	var out []Finding
	add := func(field string, policy appsv1.PersistentVolumeClaimRetentionPolicyType, when string) {
		if policy != appsv1.DeletePersistentVolumeClaimRetentionPolicyType {
			return
		}
		out = append(out, Finding{Code: "ClaimsGo", Severity: Note, Stage: StageChange, Object: self,
			Field: "spec.persistentVolumeClaimRetentionPolicy." + field, Value: string(policy), Want: "Retain",
			Message: fmt.Sprintf("The claims of StatefulSet %s are deleted %s (%s: Delete), with their data where the "+
				"class's reclaim policy is Delete.", self.Name, when, field),
			Remedies: []Remedy{{Say: "keep them: " + field + " Retain", Run: []string{kubectl(self, "patch",
				fmt.Sprintf(`--type=merge -p '{"spec":{"persistentVolumeClaimRetentionPolicy":{"%s":"Retain"}}}'`,
					field))}}}})
	}
	add("whenScaled", p.WhenScaled, "when it is scaled down")
	add("whenDeleted", p.WhenDeleted, "when it is deleted")
	return out
}

// behaviorFields are the reasons of an autoscaler's conditions, the field that leads to each, its
// default, and what it means.
var behaviorFields = map[string]struct{ field, value, text string }{
	"ScaleDownStabilized": {"scaleDown.stabilizationWindowSeconds", "300",
		"it scales down only to the highest count that it would have had in the last %s s"},
	"ScaleUpStabilized": {"scaleUp.stabilizationWindowSeconds", "0",
		"it scales up only to the lowest count that it would have had in the last %s s"},
	"ScaleUpLimit": {"scaleUp.policies", "100% or 4 Pods in 15 s",
		"it may grow by %s, and would grow faster"},
	"ScaleDownLimit": {"scaleDown.policies", "100% in 15 s", "it may shrink by %s, and would shrink faster"},
}

// heldBack tells of an autoscaler that would scale further at once, and by which field of its
// behavior it does not.
func heldBack(_ *Cluster, o metav1.Object, self Object) []Finding {
	h, ok := o.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return nil
	}
	var out []Finding
	for _, cond := range h.Status.Conditions {
		row, known := behaviorFields[cond.Reason]
		if !known || cond.Status != corev1.ConditionTrue {
			continue
		}
		value := row.value
		if own := behaviorValue(h, row.field); own != "" {
			value = own
		}
		out = append(out, Finding{Code: "ScalingHeldBack", Severity: Note, Stage: StageChange, Object: self,
			Field: "spec.behavior." + row.field, Value: value, Related: []Object{{h.Spec.ScaleTargetRef.Kind,
				h.Namespace,
				h.Spec.ScaleTargetRef.Name}}, Numbers: map[string]string{row.field: value,
				"current": fmt.Sprint(h.Status.CurrentReplicas), "desired": fmt.Sprint(h.Status.DesiredReplicas)},
			Message: fmt.Sprintf("Autoscaler %s does not scale further yet (%s): by spec.behavior.%s "+row.text+".",
				self.Name, cond.Reason, row.field, value)})
	}
	return out
}

// behaviorValue is what an autoscaler's spec says in a field of its behavior; empty: nothing.
func behaviorValue(h *autoscalingv2.HorizontalPodAutoscaler, field string) string {
	if h.Spec.Behavior == nil {
		return ""
	}
	r := h.Spec.Behavior.ScaleDown
	if strings.HasPrefix(field, "scaleUp.") {
		r = h.Spec.Behavior.ScaleUp
	}
	switch {
	case r == nil:
	case strings.HasSuffix(field, "Seconds") && r.StabilizationWindowSeconds != nil:
		return fmt.Sprint(*r.StabilizationWindowSeconds)
	case strings.HasSuffix(field, "policies"):
		var parts []string
		for _, p := range r.Policies {
			unit := " Pods"
			if p.Type == autoscalingv2.PercentScalingPolicy {
				unit = "%"
			}
			parts = append(parts, fmt.Sprintf("%d%s in %d s", p.Value, unit, p.PeriodSeconds))
		}
		return strings.Join(parts, " or ")
	}
	return ""
}
