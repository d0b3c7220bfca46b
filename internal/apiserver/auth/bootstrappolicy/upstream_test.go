package bootstrappolicy

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// recordedForm is a role or a binding as the recording has it: without what differs from cluster to
// cluster.
func recordedForm(t *testing.T, obj runtime.Object) map[string]any {
	t.Helper()
	raw, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	var all, out = map[string]any{}, map[string]any{}
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"labels", "annotations"} {
		if v, _, _ := unstructured.NestedMap(all, "metadata", field); len(v) > 0 {
			out[field] = v
		}
	}
	for _, field := range []string{"rules", "roleRef", "subjects", "aggregationRule"} {
		// kube-apiserver leaves sums to a controller
		if v := all[field]; v != nil && !(field == "rules" && all["aggregationRule"] != nil) {
			out[field] = v
		}
	}
	return out
}

// journalAPIGroup is the group of rules that Kubernetes has no need of: who speaks about Pods may
// write the journal.
const journalAPIGroup = "journal.gantry.dev"

// behindGate is the role of a controller that upstream writes with the gate GenericWorkload, which
// was off in the recording.
const behindGate = " system:controller:podgroup-protection-controller"

// withoutJournalRules is a role without the rules about the journal.
func withoutJournalRules(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	return slices.DeleteFunc(slices.Clone(rules),
		func(r rbacv1.PolicyRule) bool { return slices.Equal(r.APIGroups, []string{journalAPIGroup}) })
}

// What a cluster starts with equals, rule by rule and subject by subject, what kube-apiserver
// v1.37.2 writes into an empty etcd (testdata/roles-v1.37.2.json), beside rules about the journal.
func TestRolesAndBindingsAreThoseOfUpstream(t *testing.T) {
	raw, err := os.ReadFile("testdata/roles-v1.37.2.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]map[string]any
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	s, have := defaults(t), map[string]map[string]any{}
	for _, r := range s.ClusterRoles {
		r = r.DeepCopy()
		r.Rules = withoutJournalRules(r.Rules)
		have["clusterroles "+r.Name] = recordedForm(t, r)
	}
	for _, b := range s.ClusterRoleBindings {
		have["clusterrolebindings "+b.Name] = recordedForm(t, b)
	}
	for _, r := range s.Roles {
		r = r.DeepCopy()
		r.Rules = withoutJournalRules(r.Rules)
		have["roles "+r.Namespace+"/"+r.Name] = recordedForm(t, r)
	}
	for _, b := range s.RoleBindings {
		have["rolebindings "+b.Namespace+"/"+b.Name] = recordedForm(t, b)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if _, ok := have[name]; !ok {
			t.Errorf("%s is missing", name)
		} else if diff := cmp.Diff(want[name], have[name]); diff != "" {
			t.Errorf("%s (-v1.37.2 +here):\n%s", name, diff)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if want[name] == nil && !strings.Contains(name, "gantry") && !strings.HasSuffix(name, behindGate) {
			t.Errorf("%s is not one of v1.37.2", name)
		}
	}
}
