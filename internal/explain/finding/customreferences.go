package finding

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// flowReferences are the priority level of a FlowSchema, without which it is passed over, and the
// ServiceAccounts whose requests it is about.
func flowReferences(x *flowcontrolv1.FlowSchema) []Reference {
	out := []Reference{{Field: "spec.priorityLevelConfiguration.name",
		To: Object{"PriorityLevelConfiguration", "", x.Spec.PriorityLevelConfiguration.Name}}}
	for i, r := range x.Spec.Rules {
		for j, s := range r.Subjects {
			a := s.ServiceAccount
			if a == nil || a.Name == flowcontrolv1.NameAll || a.Namespace == "" {
				continue
			}
			out = append(out, Reference{Field: fmt.Sprintf("spec.rules[%d].subjects[%d].serviceAccount.name", i, j),
				To: Object{"ServiceAccount", a.Namespace, a.Name}, Weak: true})
		}
	}
	return out
}

// flowRules finds what a FlowSchema is about and that is not there: resources that no group serves,
// and namespaces.
func flowRules(c *Cluster, o metav1.Object, self Object) []Finding {
	x, ok := o.(*flowcontrolv1.FlowSchema)
	if !ok {
		return nil
	}
	var out []Finding
	for i, r := range x.Spec.Rules {
		for j, q := range r.ResourceRules {
			at := fmt.Sprintf("spec.rules[%d].resourceRules[%d]", i, j)
			for k, name := range q.Resources {
				if f, wrong := c.servedBy(self, name, q.APIGroups, ruleAt{at, k}); wrong {
					out = append(out, f)
				}
			}
			for k, ns := range q.Namespaces {
				to := Object{Kind: "Namespace", Name: ns}
				if ns == flowcontrolv1.NamespaceEvery || !c.Read("Namespace") {
					continue
				}
				if f, missing := c.missing(Reference{Field: fmt.Sprintf("%s.namespaces[%d]", at, k), To: to,
					Weak: true}, self); missing {
					out = append(out, f)
				}
			}
		}
	}
	return out
}

// kindOfField are the kinds that fields of other groups' objects name by their own name: a map with
// a name, or the name itself.
var kindOfField = map[string]string{"secretRef": "Secret", "secretKeyRef": "Secret", "configMapRef": "ConfigMap",
	"configMapKeyRef": "ConfigMap", "serviceAccountRef": "ServiceAccount", "serviceRef": "Service",
	"backendRefs": "Service", "certificateRefs": "Secret", "imagePullSecrets": "Secret",
	"serviceAccountName": "ServiceAccount", "storageClassName": "StorageClass", "priorityClassName": "PriorityClass",
	"runtimeClassName": "RuntimeClass", "ingressClassName": "IngressClass",
	"persistentVolumeClaimName": "PersistentVolumeClaim", "volumeSnapshotClassName": "VolumeSnapshotClass",
	"gatewayClassName": "GatewayClass", "parentRefs": "Gateway"}

// namedKinds are the kinds of Kubernetes that objects of other groups may name with their kind.
var namedKinds = []string{"Secret", "ConfigMap", "Service", "ServiceAccount", "PersistentVolumeClaim", "Deployment",
	"StatefulSet", "DaemonSet", "StorageClass", "Namespace", "Ingress", "CronJob"}

// customReferences are what an object of a group that is not Kubernetes' names in its spec, by the
// names of its fields and by kind and name. Whether it does without them is not known: they are
// weak. Fields that objects of other kinds are made of, such as secretName, are left out.
func customReferences(u *unstructured.Unstructured) []Reference {
	spec, ok := u.Object["spec"].(map[string]any)
	if !ok {
		return nil
	}
	var out []Reference
	var walk func(field, key string, v any)
	walk = func(field, key string, v any) {
		switch x := v.(type) {
		case []any:
			for i, e := range x {
				walk(fmt.Sprintf("%s[%d]", field, i), key, e)
			}
		case map[string]any:
			if r, ok := customReference(u, field, key, x); ok {
				out = append(out, r)
			}
			for _, k := range slices.Sorted(maps.Keys(x)) {
				if k != "template" { // the Pods of it are told of
					walk(field+"."+k, k, x[k])
				}
			}
		case string:
			if kind := kindOfField[key]; x != "" && kind != "" && !strings.Contains(x, "$") &&
				(strings.HasSuffix(key, "Name") || strings.HasSuffix(key, "name")) {
				out = append(out, namedBy(u, field, kind, x))
			}
		}
	}
	walk("spec", "spec", spec)
	return out
}

// customReference is what a map names: by its kind and name, or by the field's own name.
func customReference(u *unstructured.Unstructured, field, key string, m map[string]any) (Reference, bool) {
	word := func(k string) string {
		s, _ := m[k].(string) // no text is none
		return s
	}
	name, kind, group := word("name"), word("kind"), word("group")+word("apiGroup")
	if v := word("apiVersion"); strings.Contains(v, "/") {
		group, _, _ = strings.Cut(v, "/")
	}
	own := kindOfField[key]
	switch {
	case name == "" || strings.Contains(name, "$"):
		return Reference{}, false
	case kind == "" && own == "", kind == "" && group != "":
		return Reference{}, false
	case kind == "":
		kind = own
	case kind == own && !slices.Contains(namedKinds, kind):
	case group != "" && !builtInGroup(group+"/v1") || !slices.Contains(namedKinds, kind):
		return Reference{}, false
	}
	if !strings.HasSuffix(field, "Ref") { // below such a field the name is understood
		field += ".name"
	}
	r := namedBy(u, field, kind, name)
	if ns := word("namespace"); ns != "" {
		r.To.Namespace = ns
	}
	if clusterKinds[kind] {
		r.To.Namespace = ""
	}
	if kind == "Secret" || kind == "ConfigMap" {
		r.Key = word("key")
	}
	r.Optional, _ = m["optional"].(bool) // none is no
	return r, true
}

// namedBy is a reference of an object to one of its own namespace; objects without one name those
// of the cluster alone.
func namedBy(u *unstructured.Unstructured, field, kind, name string) Reference {
	r := Reference{Field: field, To: Object{kind, u.GetNamespace(), name}, Weak: true}
	if clusterKinds[kind] {
		r.To.Namespace = ""
	} else if r.To.Namespace == "" {
		r.Optional = true // its namespace is not known
	}
	return r
}

// custom reports whether an object is of a group that is not Kubernetes'.
func custom(u *unstructured.Unstructured) bool {
	return !builtInGroup(u.GetAPIVersion()) || slices.Contains([]string{"gateway.networking.k8s.io",
		"snapshot.storage.k8s.io"}, u.GroupVersionKind().Group)
}
