package finding

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Groups and users of Kubernetes' own; those of accounts, nodes and bootstrap tokens have further
// names behind them.
var (
	ownGroupNames = []string{"system:authenticated", "system:unauthenticated", "system:masters", "system:nodes",
		"system:serviceaccounts", "system:bootstrappers", "system:monitoring", "system:kube-proxier"}
	ownUserNames = []string{"system:anonymous", "system:kube-scheduler", "system:kube-controller-manager",
		"system:kube-proxy", "system:apiserver", "system:volume-scheduler", "system:aggregator"}
	openNames = []string{"system:serviceaccounts:", "system:bootstrappers:", "system:node:", "system:serviceaccount:"}
)

// ownSubjects finds groups and users in a binding that are nearly one of Kubernetes' own: all names
// with system: before them are.
func ownSubjects(c *Cluster, o metav1.Object, self Object) []Finding {
	var out []Finding
	for i, s := range subjectsOf(o) {
		have := map[string][]string{rbacv1.GroupKind: ownGroupNames, rbacv1.UserKind: ownUserNames}[s.Kind]
		if have == nil || !strings.HasPrefix(s.Name, "system:") || slices.Contains(have, s.Name) ||
			slices.ContainsFunc(openNames, func(p string) bool { return strings.HasPrefix(s.Name, p) }) {
			continue
		}
		near, how := Near(s.Name, have)
		if near == "" {
			continue
		}
		f := Finding{Code: "SubjectUnknown", Severity: Threat, Stage: StageCreation, Object: self,
			Field: fmt.Sprintf("subjects[%d].name", i), Value: s.Name, Want: near,
			Message: fmt.Sprintf("%s %s gives rights to %s %s, and Kubernetes has none of that name. Perhaps %s was "+
				"meant; %s.", self.Kind, self.Name, s.Kind, s.Name, near, how)}
		f.setTo(c, jsonText(near))
		out = append(out, f)
	}
	return out
}
