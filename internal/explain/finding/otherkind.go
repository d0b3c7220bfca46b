package finding

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kindFields are fields that name an object of one kind, with those beside them that name one of
// another: the last part of the field's path, and what to write in its place. With below the name
// stands one level deeper.
var kindFields = []struct{ kind, other, field, instead, below string }{
	{"ResourceClaim", "ResourceClaimTemplate", "resourceClaimName", "resourceClaimTemplateName", ""},
	{"ResourceClaimTemplate", "ResourceClaim", "resourceClaimTemplateName", "resourceClaimName", ""},
	{"ConfigMap", "Secret", "configMapKeyRef", "secretKeyRef", ""},
	{"Secret", "ConfigMap", "secretKeyRef", "configMapKeyRef", ""},
	{"ConfigMap", "Secret", "configMapRef", "secretRef", ""},
	{"Secret", "ConfigMap", "secretRef", "configMapRef", ""},
	{"ConfigMap", "Secret", "configMap.name", "secret", "secretName"},
	{"Secret", "ConfigMap", "secret.secretName", "configMap", "name"},
	{"Secret", "ConfigMap", "secret.name", "configMap", "name"},
}

// otherKind is what helps where an object of another kind has the name that a reference says: to
// name it by the field of its kind, or to make what leads to it.
func (c *Cluster) otherKind(self Object, r Reference, other metav1.Object, kind string) []Remedy {
	if r.To.Kind == "Service" && slices.Contains(workloadKinds, kind) {
		return c.expose(self, r, other, kind)
	}
	if r.Field == "spec.scaleTargetRef" && slices.Contains([]string{"Deployment", "StatefulSet", "ReplicaSet"}, kind) {
		return []Remedy{{Say: fmt.Sprintf("scale the %s of that name: kind %s in spec.scaleTargetRef", kind, kind),
			Run: []string{kubectl(self, "patch", fmt.Sprintf(
				`--type=merge -p '{"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":%q}}}'`, kind))}}}
	}
	for _, k := range kindFields {
		if k.kind != r.To.Kind || k.other != kind || !strings.HasSuffix(r.Field, "."+k.field) {
			continue
		}
		at := strings.TrimSuffix(r.Field, k.field)
		patch := fmt.Sprintf(`[{"op":"move","from":%s,"path":%s}]`, jsonText(pointer(r.Field)),
			jsonText(pointer(at+k.instead)))
		if k.below != "" {
			old, _, _ := strings.Cut(k.field, ".")
			if strings.Contains(at, ".sources[") {
				k.below = "name" // a projected source says the name so for all kinds
			}
			patch = fmt.Sprintf(`[{"op":"remove","path":%s},{"op":"add","path":%s,"value":{%s:%s}}]`,
				jsonText(pointer(at+old)), jsonText(pointer(at+k.instead)), jsonText(k.below), jsonText(r.To.Name))
		}
		return []Remedy{{Say: fmt.Sprintf("name the %s by %s instead of %s in %s", kind, k.instead, k.field, self),
			Run: c.patchCommand(self, patch)}}
	}
	return nil
}

// expose is the command that makes a Service of a name over a workload's Pods: for the port that an
// Ingress asks, or that the Pods declare.
func (c *Cluster) expose(self Object, r Reference, workload metav1.Object, kind string) []Remedy {
	spec, _ := podSpecOf(workload)
	port := int32(0)
	for i := range spec.Containers {
		if p := spec.Containers[i].Ports; len(p) > 0 && port == 0 {
			port = p[0].ContainerPort
		}
	}
	if port == 0 || kind == "StatefulSet" || kind == "DaemonSet" { // kubectl exposes neither
		return nil
	}
	asked := port
	if x, ok := c.Get(self).(*networkingv1.Ingress); ok {
		asked = cmp.Or(backendNumber(x, r.To.Name), port)
	}
	return []Remedy{{Say: fmt.Sprintf("make a Service over the Pods of %s %s", kind, r.To.Name), Run: []string{kubectl(
		Object{kind, r.To.Namespace, r.To.Name}, "expose", fmt.Sprintf("--port=%d --target-port=%d", asked, port))}}}
}

// backendNumber is the port by which an Ingress asks a Service; 0 where it says none by number.
func backendNumber(x *networkingv1.Ingress, service string) int32 {
	for _, r := range x.Spec.Rules {
		if r.HTTP == nil {
			continue
		}
		for _, p := range r.HTTP.Paths {
			if s := p.Backend.Service; s != nil && s.Name == service {
				return s.Port.Number
			}
		}
	}
	if b := x.Spec.DefaultBackend; b != nil && b.Service != nil && b.Service.Name == service {
		return b.Service.Port.Number
	}
	return 0
}
