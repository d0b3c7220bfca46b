package bootstrappolicy

import (
	_ "embed"
	"fmt"
	"sort"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

//go:embed roles.txt
var rolesText string

//go:embed controllers.txt
var controllersText string

// Policy is the roles and bindings of a cluster.
type Policy struct {
	ClusterRoles        []*rbacv1.ClusterRole
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
	Roles               []*rbacv1.Role
	RoleBindings        []*rbacv1.RoleBinding
}

// Default returns what a cluster starts with.
func Default() (*Policy, error) {
	s := &Policy{}
	for name, text := range map[string]string{"roles.txt": rolesText, "controllers.txt": controllersText} {
		if err := s.parse(name, text); err != nil {
			return nil, err
		}
	}
	return s, s.aggregate()
}

// Rules returns the rules of one of the set's ClusterRoles.
func (s *Policy) Rules(clusterRole string) []rbacv1.PolicyRule {
	for _, r := range s.ClusterRoles {
		if r.Name == clusterRole {
			return r.Rules
		}
	}
	return nil
}

// AllowCSINodeStatus adds to the role of nodes what the gate CSIVolumeHealth adds to it.
func (s *Policy) AllowCSINodeStatus() {
	for _, r := range s.ClusterRoles {
		if r.Name == "system:node" {
			r.Rules = append(r.Rules, rbacv1.PolicyRule{Verbs: []string{"get", "patch", "update"},
				APIGroups: []string{"storage.k8s.io"}, Resources: []string{"csinodes/status"}})
		}
	}
}

// parse reads blocks. A block opens with "clusterrole NAME", "role NAMESPACE NAME" or "controller
// NAME"; its lines are
//
//	allow VERBS GROUPS RESOURCES [NAMES]
//	                          a rule; lists are joined by commas
//	urls VERBS PATHS          a rule about paths
//	events                    the rule by which components write Events
//	label KEY                 the label KEY=true
//	sum-of KEY                the role is the sum of ClusterRoles with the label KEY=true
//	to [BINDING] SUBJECT...   a binding, named as the role unless said; a subject is user:NAME,
//	                          group:NAME, sa:NAMESPACE/NAME, or none
func (s *Policy) parse(file, text string) error {
	b := &roleBlock{}
	for n, line := range strings.Split(text, "\n") {
		if line = strings.TrimRight(line, " "); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		if !strings.HasPrefix(line, "\t") {
			if b = s.openBlock(words); b == nil {
				return fmt.Errorf("%s:%d: %q opens no block", file, n+1, line)
			}
			continue
		}
		if b.meta == nil || !b.parseLine(s, words) {
			return fmt.Errorf("%s:%d: %q says nothing known", file, n+1, line)
		}
	}
	return nil
}

// roleBlock is the role being read.
type roleBlock struct {
	kind      string // of the role
	meta      *metav1.ObjectMeta
	rules     *[]rbacv1.PolicyRule
	aggregate **rbacv1.AggregationRule
}

func (s *Policy) openBlock(words []string) *roleBlock {
	switch {
	case len(words) == 2 && words[0] == "clusterrole":
		r := &rbacv1.ClusterRole{ObjectMeta: newObjectMeta("", words[1])}
		s.ClusterRoles = append(s.ClusterRoles, r)
		return &roleBlock{"ClusterRole", &r.ObjectMeta, &r.Rules, &r.AggregationRule}
	case len(words) == 2 && words[0] == "controller":
		b := s.openBlock([]string{"clusterrole", "system:controller:" + words[1]})
		b.bindTo(s, b.meta.Name, []string{"sa:kube-system/" + words[1]})
		return b
	case len(words) == 3 && words[0] == "role":
		r := &rbacv1.Role{ObjectMeta: newObjectMeta(words[1], words[2])}
		s.Roles = append(s.Roles, r)
		return &roleBlock{"Role", &r.ObjectMeta, &r.Rules, nil}
	}
	return nil
}

func newObjectMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Labels:      map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"},
		Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
	}
}

func (b *roleBlock) parseLine(s *Policy, words []string) bool {
	switch word, args := words[0], words[1:]; {
	case word == "allow" && (len(args) == 3 || len(args) == 4):
		r := rbacv1.PolicyRule{Verbs: splitList(args[0]), APIGroups: splitList(args[1]), Resources: splitList(args[2])}
		if len(args) == 4 {
			r.ResourceNames = splitList(args[3])
		}
		*b.rules = append(*b.rules, r)
	case word == "urls" && len(args) == 2:
		*b.rules = append(*b.rules, rbacv1.PolicyRule{Verbs: splitList(args[0]), NonResourceURLs: splitList(args[1])})
	case word == "events" && len(args) == 0:
		return b.parseLine(s, []string{"allow", "create,patch,update", "core,events.k8s.io", "events"})
	case word == "label" && len(args) == 1:
		b.meta.Labels[args[0]] = "true"
	case word == "sum-of" && len(args) == 1 && b.aggregate != nil:
		*b.aggregate = &rbacv1.AggregationRule{
			ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{args[0]: "true"}}}}
	case word == "to" && len(args) > 0:
		name := b.meta.Name
		if _, ok := parseSubject(args[0]); !ok && args[0] != "none" {
			name, args = args[0], args[1:]
		}
		return b.bindTo(s, name, args)
	default:
		return false
	}
	return true
}

// splitList splits a list, writes words in full and sorts.
func splitList(words string) []string {
	var out []string
	for _, w := range strings.Split(words, ",") {
		switch w {
		case "read":
			out = append(out, "get", "list", "watch")
		case "write":
			out = append(out, "create", "delete", "deletecollection", "patch", "update")
		case "core":
			out = append(out, "")
		default:
			out = append(out, w)
		}
	}
	sort.Strings(out)
	return out
}

func (b *roleBlock) bindTo(s *Policy, name string, to []string) bool {
	var subjects []rbacv1.Subject
	for _, w := range to {
		sub, ok := parseSubject(w)
		if !ok && w != "none" {
			return false
		}
		if ok {
			subjects = append(subjects, sub)
		}
	}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: b.kind, Name: b.meta.Name}
	if b.kind == "Role" {
		s.RoleBindings = append(s.RoleBindings, &rbacv1.RoleBinding{ObjectMeta: newObjectMeta(b.meta.Namespace, name),
			RoleRef: ref, Subjects: subjects})
		return true
	}
	s.ClusterRoleBindings = append(s.ClusterRoleBindings,
		&rbacv1.ClusterRoleBinding{ObjectMeta: newObjectMeta("", name), RoleRef: ref, Subjects: subjects})
	return true
}

func parseSubject(w string) (rbacv1.Subject, bool) {
	kind, name, _ := strings.Cut(w, ":")
	switch kind {
	case "user":
		return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}, true
	case "group":
		return rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name}, true
	case "sa":
		ns, sa, ok := strings.Cut(name, "/")
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: sa}, ok
	}
	return rbacv1.Subject{}, false
}
