package finding

import (
	"slices"
	"testing"
)

// A namespace whose Pods are within their grace period, or that was deleted a moment ago, goes by
// itself; one whose Pods outlast it, or that a finalizer holds, does not. Another namespace's end
// is none of a namespace's causes.
func TestANamespaceThatGoesByItself(t *testing.T) {
	ending := func(deleted, condition, podUntil string) string {
		return `{apiVersion: v1, kind: Namespace, metadata: {name: shop, deletionTimestamp: "2026-05-01T` +
			deleted + `Z"}, status: {conditions: [` + condition + `]}}` + "\n---\n" +
			`{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, deletionTimestamp: "2026-05-01T` +
			podUntil + `Z"}, spec: {containers: [{name: a}]}}`
	}
	remaining := `{type: NamespaceContentRemaining, status: "True", message: "Some resources are remaining: ` +
		`pods. has 1 resource instances"}`
	held := remaining + `, {type: NamespaceFinalizersRemaining, status: "True", message: "Some content in the ` +
		`namespace has finalizers remaining: example.com/keep in 1 resource instances"}`
	for _, c := range []struct {
		deleted, condition, podUntil string
		want                         Severity
	}{
		{"11:59:55", "", "11:59:56", Note},
		{"11:59:55", remaining, "11:59:56", Note},
		{"11:58:00", remaining, "12:00:30", Note},   // a Pod's grace period is two and a half minutes
		{"11:50:00", remaining, "11:50:30", Broken}, // it is past
		{"11:59:55", held, "11:59:56", Broken},
	} {
		cluster := clusterOf(t, ending(c.deleted, c.condition, c.podUntil))
		got := Of(cluster, Object{Kind: "Namespace", Name: "shop"})
		i := slices.IndexFunc(got, func(f Finding) bool { return f.Code == "NamespaceTerminating" })
		if i < 0 || got[i].Severity != c.want {
			t.Errorf("%+v: got %+v, want severity %v", c, got, c.want)
		}
		for namespace, want := range map[string]bool{"shop": true, "": true, "mail": false} {
			told := slices.ContainsFunc(All(cluster, namespace), func(f Finding) bool {
				return f.Object.Kind == "Namespace"
			})
			if told != want {
				t.Errorf("%+v: asked of namespace %q: got told %v, want %v", c, namespace, told, want)
			}
		}
	}
}
