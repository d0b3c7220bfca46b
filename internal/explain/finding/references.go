package finding

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reference is a field of an object that names another object, or a key of one.
type Reference struct {
	Field    string
	To       Object
	Key      string // of a ConfigMap or Secret; empty: the whole object
	Optional bool   // the object does without it
	Weak     bool   // the object starts without it, and something does not work later
	Stage    Stage
}

// references returns what an object names, in the order of its fields. Objects of unknown kinds
// name nothing.
func references(o metav1.Object) []Reference {
	ns := o.GetNamespace()
	switch x := o.(type) {
	case *corev1.Pod:
		return podReferences(&x.Spec, ns, "spec")
	case *appsv1.Deployment, *appsv1.ReplicaSet, *appsv1.DaemonSet:
		spec, at := podSpecOf(o)
		return podReferences(spec, ns, at)
	case *appsv1.StatefulSet:
		return statefulSetReferences(x)
	case *batchv1.Job:
		return append(podReferences(&x.Spec.Template.Spec, ns, "spec.template.spec"), jobReferences(&x.Spec, ns,
			"spec")...)
	case *batchv1.CronJob:
		return append(podReferences(&x.Spec.JobTemplate.Spec.Template.Spec, ns, "spec.jobTemplate.spec.template.spec"),
			jobReferences(&x.Spec.JobTemplate.Spec, ns, "spec.jobTemplate.spec")...)
	case *corev1.PersistentVolumeClaim:
		return claimReferences(x)
	case *corev1.ServiceAccount:
		return pullSecrets(x.ImagePullSecrets, ns, "imagePullSecrets")
	case *autoscalingv2.HorizontalPodAutoscaler:
		return scalerReferences(x)
	case *networkingv1.Ingress:
		return ingressReferences(x)
	case *rbacv1.RoleBinding:
		return bindingReferences(x.RoleRef, x.Subjects, ns)
	case *rbacv1.ClusterRoleBinding:
		return bindingReferences(x.RoleRef, x.Subjects, "")
	}
	return furtherReferences(o)
}

// BackendsOf are the Services that an Ingress sends traffic to.
func BackendsOf(x *networkingv1.Ingress) []string {
	var out []string
	for _, r := range ingressReferences(x) {
		if r.To.Kind == "Service" && !slices.Contains(out, r.To.Name) {
			out = append(out, r.To.Name)
		}
	}
	return out
}

// statefulSetReferences are those of the template, the governing Service and the claims' classes.
func statefulSetReferences(x *appsv1.StatefulSet) []Reference {
	out := podReferences(&x.Spec.Template.Spec, x.Namespace, "spec.template.spec")
	if x.Spec.ServiceName != "" {
		out = append(out, Reference{Field: "spec.serviceName", To: Object{"Service", x.Namespace, x.Spec.ServiceName},
			Weak: true})
	}
	for i := range x.Spec.VolumeClaimTemplates {
		out = append(out, claimSpecReferences(&x.Spec.VolumeClaimTemplates[i].Spec, x.Namespace,
			fmt.Sprintf("spec.volumeClaimTemplates[%d].spec", i), StageControl)...)
	}
	return out
}

// claimReferences are those of a claim; what it was made from matters until it is bound.
func claimReferences(x *corev1.PersistentVolumeClaim) []Reference {
	all := claimSpecReferences(&x.Spec, x.Namespace, "spec", StageVolume)
	if x.Status.Phase != corev1.ClaimBound {
		return all
	}
	return slices.DeleteFunc(all, func(r Reference) bool { return r.To.Kind != "PersistentVolume" })
}

func ingressReferences(x *networkingv1.Ingress) []Reference {
	var out []Reference
	if c := x.Spec.IngressClassName; c != nil {
		out = append(out, Reference{Field: "spec.ingressClassName", To: Object{"IngressClass", "", *c}})
	}
	add := func(field string, b *networkingv1.IngressBackend) {
		if b != nil && b.Resource != nil && builtInGroup(groupOf(b.Resource.APIGroup)) {
			out = append(out, Reference{Field: field + ".resource.name",
				To: Object{b.Resource.Kind, x.Namespace, b.Resource.Name}, Stage: StageTraffic})
		}
		if b != nil && b.Service != nil {
			out = append(out, Reference{Field: field + ".service.name",
				To: Object{"Service", x.Namespace, b.Service.Name}, Stage: StageTraffic})
		}
	}
	add("spec.defaultBackend", x.Spec.DefaultBackend)
	for i, r := range x.Spec.Rules {
		if r.HTTP == nil {
			continue
		}
		for j := range r.HTTP.Paths {
			add(fmt.Sprintf("spec.rules[%d].http.paths[%d].backend", i, j), &r.HTTP.Paths[j].Backend)
		}
	}
	for i, t := range x.Spec.TLS {
		if t.SecretName != "" {
			out = append(out, Reference{Field: fmt.Sprintf("spec.tls[%d].secretName", i),
				To: Object{"Secret", x.Namespace, t.SecretName}, Stage: StageTraffic})
		}
	}
	return out
}

func bindingReferences(role rbacv1.RoleRef, subjects []rbacv1.Subject, ns string) []Reference {
	to := Object{role.Kind, ns, role.Name}
	if role.Kind == "ClusterRole" {
		to.Namespace = ""
	}
	out := []Reference{{Field: "roleRef", To: to}}
	for i, s := range subjects {
		if s.Kind == rbacv1.ServiceAccountKind {
			out = append(out, Reference{Field: fmt.Sprintf("subjects[%d]", i),
				To: Object{"ServiceAccount", s.Namespace, s.Name}})
		}
	}
	return out
}

func pullSecrets(list []corev1.LocalObjectReference, ns, field string) []Reference {
	var out []Reference
	for i, s := range list {
		if s.Name != "" {
			out = append(out, Reference{Field: fmt.Sprintf("%s[%d].name", field, i), To: Object{"Secret", ns, s.Name},
				Weak: true, Stage: StageImage})
		}
	}
	return out
}

// podReferences are those of a Pod's spec, whose path is at.
func podReferences(s *corev1.PodSpec, ns, at string) []Reference {
	var out []Reference
	add := func(field, kind, namespace, name string, stage Stage) {
		if name != "" {
			out = append(out, Reference{Field: at + "." + field, To: Object{kind, namespace, name}, Stage: stage})
		}
	}
	add("serviceAccountName", "ServiceAccount", ns, s.ServiceAccountName, StageCreation)
	add("priorityClassName", "PriorityClass", "", s.PriorityClassName, StageCreation)
	if s.RuntimeClassName != nil {
		add("runtimeClassName", "RuntimeClass", "", *s.RuntimeClassName, StageCreation)
	}
	add("nodeName", "Node", "", s.NodeName, StageNode)
	add("schedulingGroup.podGroupName", "PodGroup", ns, groupNameOf(s), StageCreation)
	if s.Subdomain != "" {
		out = append(out, Reference{Field: at + ".subdomain", To: Object{"Service", ns, s.Subdomain}, Weak: true,
			Stage: StageTraffic})
	}
	for i, c := range s.ResourceClaims {
		if c.ResourceClaimName != nil {
			add(fmt.Sprintf("resourceClaims[%d].resourceClaimName", i), "ResourceClaim", ns, *c.ResourceClaimName,
				StageReference)
		}
		if c.ResourceClaimTemplateName != nil {
			add(fmt.Sprintf("resourceClaims[%d].resourceClaimTemplateName", i), "ResourceClaimTemplate", ns,
				*c.ResourceClaimTemplateName, StageReference)
		}
	}
	out = append(out, pullSecrets(s.ImagePullSecrets, ns, at+".imagePullSecrets")...)
	for i := range s.Volumes {
		out = append(out, volumeReferences(&s.Volumes[i], ns, fmt.Sprintf("%s.volumes[%d]", at, i))...)
	}
	for i := range s.InitContainers {
		out = append(out, containerReferences(&s.InitContainers[i], ns, fmt.Sprintf("%s.initContainers[%d]", at, i))...)
	}
	for i := range s.Containers {
		out = append(out, containerReferences(&s.Containers[i], ns, fmt.Sprintf("%s.containers[%d]", at, i))...)
	}
	for i := range s.EphemeralContainers {
		c := corev1.Container(s.EphemeralContainers[i].EphemeralContainerCommon)
		out = append(out, optionalReferences(containerReferences(&c, ns,
			fmt.Sprintf("%s.ephemeralContainers[%d]", at, i)))...)
	}
	return append(out, affinityNamespaces(s.Affinity, at+".affinity")...)
}

// volumeReferences are those of one volume.
func volumeReferences(v *corev1.Volume, ns, at string) []Reference {
	var out []Reference
	add := func(field string, to Object, items []corev1.KeyToPath, optional *bool) {
		no := optional != nil && *optional
		out = append(out, Reference{Field: at + "." + field, To: to, Optional: no, Stage: StageVolume})
		for i, item := range items {
			out = append(out, Reference{Field: fmt.Sprintf("%s.%s[%d].key", at, itemsOf(field), i), To: to,
				Key: item.Key, Optional: no, Stage: StageVolume})
		}
	}
	secrets := inlineSecrets(&v.VolumeSource)
	for _, field := range slices.Sorted(maps.Keys(secrets)) {
		add(field, Object{"Secret", ns, secrets[field]}, nil, nil)
	}
	switch {
	case v.ConfigMap != nil:
		add("configMap.name", Object{"ConfigMap", ns, v.ConfigMap.Name}, v.ConfigMap.Items, v.ConfigMap.Optional)
	case v.Secret != nil:
		add("secret.secretName", Object{"Secret", ns, v.Secret.SecretName}, v.Secret.Items, v.Secret.Optional)
	case v.PersistentVolumeClaim != nil:
		out = append(out, Reference{Field: at + ".persistentVolumeClaim.claimName",
			To: Object{"PersistentVolumeClaim", ns, v.PersistentVolumeClaim.ClaimName}, Stage: StageReference})
	case v.CSI != nil:
		out = append(out, Reference{Field: at + ".csi.driver", To: Object{"CSIDriver", "", v.CSI.Driver},
			Stage: StageVolume})
		if r := v.CSI.NodePublishSecretRef; r != nil {
			add("csi.nodePublishSecretRef.name", Object{"Secret", ns, r.Name}, nil, nil)
		}
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		out = append(out, claimSpecReferences(&v.Ephemeral.VolumeClaimTemplate.Spec, ns,
			at+".ephemeral.volumeClaimTemplate.spec", StageReference)...)
	case v.Projected != nil:
		for i, s := range v.Projected.Sources {
			source := fmt.Sprintf("projected.sources[%d]", i)
			if s.ConfigMap != nil {
				add(source+".configMap.name", Object{"ConfigMap", ns, s.ConfigMap.Name}, s.ConfigMap.Items,
					s.ConfigMap.Optional)
			}
			if t := s.ClusterTrustBundle; t != nil && t.Name != nil {
				add(source+".clusterTrustBundle.name", Object{"ClusterTrustBundle", "", *t.Name}, nil, t.Optional)
			}
			if s.Secret != nil {
				add(source+".secret.name", Object{"Secret", ns, s.Secret.Name}, s.Secret.Items, s.Secret.Optional)
			}
		}
	}
	return out
}

// itemsOf is the path of the items beside a name's path.
func itemsOf(field string) string {
	for i := len(field) - 1; i >= 0; i-- {
		if field[i] == '.' {
			return field[:i] + ".items"
		}
	}
	return "items"
}

// containerReferences are those of a container's environment.
func containerReferences(c *corev1.Container, ns, at string) []Reference {
	var out []Reference
	add := func(field string, to Object, key string, optional *bool) {
		out = append(out, Reference{Field: at + "." + field, To: to, Key: key,
			Optional: optional != nil && *optional, Stage: StageRun})
	}
	for i, e := range c.Env {
		switch f := e.ValueFrom; {
		case f == nil:
		case f.ConfigMapKeyRef != nil:
			add(fmt.Sprintf("env[%d].valueFrom.configMapKeyRef", i), Object{"ConfigMap", ns, f.ConfigMapKeyRef.Name},
				f.ConfigMapKeyRef.Key, f.ConfigMapKeyRef.Optional)
		case f.SecretKeyRef != nil:
			add(fmt.Sprintf("env[%d].valueFrom.secretKeyRef", i), Object{"Secret", ns, f.SecretKeyRef.Name},
				f.SecretKeyRef.Key, f.SecretKeyRef.Optional)
		}
	}
	for i, e := range c.EnvFrom {
		if e.ConfigMapRef != nil {
			add(fmt.Sprintf("envFrom[%d].configMapRef", i), Object{"ConfigMap", ns, e.ConfigMapRef.Name}, "",
				e.ConfigMapRef.Optional)
		}
		if e.SecretRef != nil {
			add(fmt.Sprintf("envFrom[%d].secretRef", i), Object{"Secret", ns, e.SecretRef.Name}, "",
				e.SecretRef.Optional)
		}
	}
	return out
}
