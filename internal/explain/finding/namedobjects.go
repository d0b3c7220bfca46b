package finding

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// optionalReferences are references of which the object starts without what they name.
func optionalReferences(list []Reference) []Reference {
	for i := range list {
		list[i].Weak = true
	}
	return list
}

// affinityNamespaces are the namespaces that terms of Pod affinity and anti-affinity name.
func affinityNamespaces(a *corev1.Affinity, at string) []Reference {
	var out []Reference
	for _, t := range affinityTerms(a, at) {
		for i, ns := range t.term.Namespaces {
			out = append(out, Reference{Field: fmt.Sprintf("%s.namespaces[%d]", t.at, i),
				To: Object{"Namespace", "", ns}, Weak: true, Stage: StagePlacement})
		}
	}
	return out
}

// deviceClaims are the claims, or templates of claims, that all Pods of a group share.
func deviceClaims(at, ns string, claim, template *string) []Reference {
	var out []Reference
	for _, x := range []struct {
		field, kind string
		name        *string
	}{{"resourceClaimName", "ResourceClaim", claim}, {"resourceClaimTemplateName", "ResourceClaimTemplate", template}} {
		if x.name != nil && *x.name != "" {
			out = append(out, Reference{Field: at + "." + x.field, To: Object{x.kind, ns, *x.name},
				Stage: StageReference})
		}
	}
	return out
}

// jobReferences are those of how a Job's Pods are placed together; at is the path of its spec.
func jobReferences(s *batchv1.JobSpec, ns, at string) []Reference {
	if s.Scheduling == nil {
		return nil
	}
	var out []Reference
	for i, c := range s.Scheduling.ResourceClaims {
		out = append(out, deviceClaims(fmt.Sprintf("%s.scheduling.resourceClaims[%d]", at, i), ns, c.ResourceClaimName,
			c.ResourceClaimTemplateName)...)
	}
	return out
}

// groupReferences are those of a PodGroup.
func groupReferences(g *schedulingv1beta1.PodGroup) []Reference {
	var out []Reference
	if n := g.Spec.PriorityClassName; n != "" {
		out = append(out, Reference{Field: "spec.priorityClassName", To: Object{"PriorityClass", "", n},
			Stage: StageCreation})
	}
	if r := g.Spec.WorkloadRef; r != nil && r.WorkloadName != "" {
		out = append(out, Reference{Field: "spec.workloadRef.workloadName", To: Object{"Workload", g.Namespace,
			r.WorkloadName}, Weak: true, Stage: StageCreation})
	}
	for i, c := range g.Spec.ResourceClaims {
		out = append(out, deviceClaims(fmt.Sprintf("spec.resourceClaims[%d]", i), g.Namespace, c.ResourceClaimName,
			c.ResourceClaimTemplateName)...)
	}
	return out
}

// scalerReferences are what an autoscaler scales, and the objects that its metrics describe.
func scalerReferences(h *autoscalingv2.HorizontalPodAutoscaler) []Reference {
	t := h.Spec.ScaleTargetRef
	var out []Reference
	if !withoutReplicas(t) { // one that cannot be scaled need not be there
		out = []Reference{{Field: "spec.scaleTargetRef", To: Object{t.Kind, h.Namespace, t.Name}}}
	}
	for i, m := range h.Spec.Metrics {
		if m.Object == nil || !builtInGroup(m.Object.DescribedObject.APIVersion) {
			continue
		}
		d := m.Object.DescribedObject
		out = append(out, Reference{Field: fmt.Sprintf("spec.metrics[%d].object.describedObject.name", i),
			To: Object{d.Kind, h.Namespace, d.Name}, Weak: true, Stage: StageControl})
	}
	return out
}

// ingressClassReferences are the parameters that a class names; of others' kinds nothing is known.
func ingressClassReferences(x *networkingv1.IngressClass) []Reference {
	p := x.Spec.Parameters
	if p == nil || !builtInGroup(groupOf(p.APIGroup)) {
		return nil
	}
	ns := ""
	if p.Namespace != nil {
		ns = *p.Namespace
	}
	return []Reference{{Field: "spec.parameters.name", To: Object{p.Kind, ns, p.Name}, Weak: true,
		Stage: StageTraffic}}
}

// endpointReferences are the Pods that somebody named as endpoints; those that a controller writes
// follow the Pods by themselves.
func endpointReferences(x *discoveryv1.EndpointSlice) []Reference {
	if metav1.GetControllerOf(x) != nil || x.Labels[discoveryv1.LabelManagedBy] != "" {
		return nil
	}
	var out []Reference
	for i, e := range x.Endpoints {
		if r := e.TargetRef; r != nil && r.Kind == "Pod" && r.Name != "" {
			out = append(out, Reference{Field: fmt.Sprintf("endpoints[%d].targetRef.name", i),
				To: Object{"Pod", x.Namespace, r.Name}, Weak: true, Stage: StageTraffic})
		}
	}
	return out
}

// params finds parameters of an admission policy that its binding names and that are not there, of
// the kind that the policy says.
func params(c *Cluster, o metav1.Object, self Object) []Finding {
	var r *admissionv1.ParamRef
	var of *admissionv1.ParamKind
	switch x := o.(type) {
	case *admissionv1.ValidatingAdmissionPolicyBinding:
		r = x.Spec.ParamRef
		if p, ok := get[*admissionv1.ValidatingAdmissionPolicy](c, "ValidatingAdmissionPolicy", "",
			x.Spec.PolicyName); ok {
			of = p.Spec.ParamKind
		}
	case *admissionv1.MutatingAdmissionPolicyBinding:
		r = x.Spec.ParamRef
		if p, ok := get[*admissionv1.MutatingAdmissionPolicy](c, "MutatingAdmissionPolicy", "",
			x.Spec.PolicyName); ok {
			of = p.Spec.ParamKind
		}
	}
	if r != nil && r.Selector != nil && of != nil && builtInGroup(of.APIVersion) && c.Read(of.Kind) &&
		(r.Namespace == "" || c.whole(r.Namespace)) {
		var among []labelled
		for _, x := range c.Objects[of.Kind] {
			among = append(among, labelled{objectOf(of.Kind, x), x.GetLabels()})
		}
		return c.selectsNone(self, selectorAt{field: "spec.paramRef.selector", selector: r.Selector, among: among,
			what: of.Kind + "s", follows: "the policy has no parameters", severity: Threat, near: Threat,
			stage: StageCreation})
	}
	if r == nil || r.Name == "" || of == nil || !builtInGroup(of.APIVersion) || r.Namespace == "" &&
		!clusterKinds[of.Kind] {
		return nil // without a namespace it is that of each object
	}
	to := Object{of.Kind, r.Namespace, r.Name}
	if !c.knows(to) {
		return nil
	}
	f, missing := c.missing(Reference{Field: "spec.paramRef.name", To: to, Weak: true, Stage: StageCreation}, self)
	if !missing {
		return nil
	}
	if p := r.ParameterNotFoundAction; p != nil && *p == admissionv1.DenyAction {
		f.Message += " It refuses what it is about until they are there (parameterNotFoundAction Deny)."
	}
	return []Finding{f}
}
