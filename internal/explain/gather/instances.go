package gather

import (
	"context"
	"path"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// addInstances reads, where a CustomResourceDefinition is asked about, the objects of those that
// are being deleted: these wait for them.
func addInstances(ctx context.Context, r *reader, c *finding.Cluster, asked string) {
	if asked != "CustomResourceDefinition" {
		return
	}
	for _, o := range c.Objects["CustomResourceDefinition"] {
		u, ok := o.(*unstructured.Unstructured)
		if !ok || u.GetDeletionTimestamp() == nil {
			continue
		}
		kind, of := servedAt(u)
		if of == "" {
			continue
		}
		l, err := rawList(of)(ctx, r.client, "", metav1.ListOptions{ResourceVersion: "0"})
		if r.seen("objects of "+u.GetName(), err) {
			c.Add(kind, extracted(l)...)
		}
	}
}

// servedAt is the kind of a definition and the path of its objects in a served version; empty where
// there is none.
func servedAt(u *unstructured.Unstructured) (kind, at string) {
	group, _, err1 := unstructured.NestedString(u.Object, "spec", "group")
	plural, _, err2 := unstructured.NestedString(u.Object, "spec", "names", "plural")
	kind, _, err3 := unstructured.NestedString(u.Object, "spec", "names", "kind")
	versions, _, err4 := unstructured.NestedSlice(u.Object, "spec", "versions")
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		return "", ""
	}
	for _, v := range versions {
		m, ok := v.(map[string]any)
		if name, named := m["name"].(string); ok && named && m["served"] == true {
			return kind, path.Join("/apis", group, name, plural)
		}
	}
	return kind, ""
}
