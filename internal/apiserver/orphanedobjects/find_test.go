package orphanedobjects

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func refOf(resource, namespace, name string) ObjectRef {
	return ObjectRef{schema.GroupVersionResource{Version: "v1", Resource: resource}, namespace, name}
}

func namespaces(names ...string) map[string]bool {
	out := map[string]bool{}
	for _, n := range names {
		out[n] = true
	}
	return out
}

// An object is an orphan whose namespace is not among the stored ones; those of others, of
// terminating ones too, and of none are not.
func TestAnObjectWithoutItsNamespaceIsAnOrphan(t *testing.T) {
	got, err := FindOrphans(Listing{Namespaces: namespaces("default", "kube-system", "kube-public", "a"),
		Objects: []ObjectRef{
			refOf("secrets", "gone", "s"), refOf("pods", "a", "p"), refOf("pods", "gone", "p"),
			refOf("pods", "default", "p"),
			refOf("nodes", "", "n"), refOf("pods", "a-", "p"),
		}})
	if want := []ObjectRef{refOf("pods", "a-", "p"), refOf("pods", "gone", "p"),
		refOf("secrets", "gone", "s")}; err != nil ||
		!slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

// A list of namespaces that lacks one every cluster has is not complete: nothing is an orphan by
// it, and the reason names what is missing.
func TestNothingIsAnOrphanByAListThatIsNotComplete(t *testing.T) {
	for _, missing := range []string{"default", "kube-system", "kube-public"} {
		have := namespaces("default", "kube-system", "kube-public", "a")
		delete(have, missing)
		got, err := FindOrphans(Listing{Namespaces: have, Objects: []ObjectRef{refOf("pods", "gone", "p")}})
		if len(got) != 0 || err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("without %s: %v, %v", missing, got, err)
		}
	}
}

func TestKeysAreTakenApart(t *testing.T) {
	for key, want := range map[string][]string{"a/b": {"a", "b"}, "a": nil, "a/": nil, "/b": nil, "a/b/c": nil,
		"": nil} {
		namespace, name, err := SplitKey(key)
		if want == nil != (err != nil) || err == nil && (namespace != want[0] || name != want[1]) {
			t.Errorf("%q: got %q, %q, %v; want %q (an error if empty)", key, namespace, name, err, want)
		}
	}
}

// A report counts by namespace, resource and outcome, and keeps the first reason.
func TestAReportCountsOutcomes(t *testing.T) {
	var r Report
	r.Add(refOf("pods", "a", "1"), Removed, "")
	r.Add(refOf("pods", "a", "2"), Removed, "")
	if r.HasRemaining() {
		t.Error("something is left")
	}
	r.Add(refOf("pods", "a", "3"), Terminating, "finalizers x/y")
	r.Add(refOf("pods", "a", "4"), Terminating, "finalizers x/z")
	want := []Group{{"a", "pods", Removed, 2, ""}, {"a", "pods", Terminating, 2, "finalizers x/y"}}
	if !slices.Equal(r.Groups, want) || !r.HasRemaining() {
		t.Errorf("got %+v, want Groups %v and r.HasRemaining() true", r.Groups, want)
	}
}
