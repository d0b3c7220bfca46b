package finding

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
)

var versionWord = regexp.MustCompile(`^v\d+((alpha|beta)\d+)?$`)

// groupMeant is the API group that was meant by a group written with its version, or by a version
// alone, which stands for the core group.
func groupMeant(group string) (meant string, ok bool) {
	name, version, cut := strings.Cut(group, "/")
	switch {
	case cut && versionWord.MatchString(version):
		return name, true
	case versionWord.MatchString(group):
		return "", true
	}
	return "", false
}

// kindOfResource is the kind that was read of a resource's plural; empty when none was.
func (c *Cluster) kindOfResource(plural string) string {
	for kind := range c.Objects {
		low := strings.ToLower(kind)
		if plural == low+"s" || plural == low+"es" || plural == strings.TrimSuffix(low, "y")+"ies" {
			return kind
		}
	}
	return ""
}

// ownGroups reports whether API groups are Kubernetes' own, whose kinds are read: another group may
// have a resource of the same name.
func ownGroups(groups []string) bool {
	return !slices.ContainsFunc(groups, func(g string) bool {
		return strings.Contains(g, ".") && !strings.HasSuffix(g, ".k8s.io") || g == "metrics.k8s.io"
	})
}

// nameless are verbs whose requests carry no name of an object: resourceNames never let them pass.
var nameless = []string{"create", "deletecollection"}

// allowsUnnamed reports whether a rule without names allows a verb on all that another is about.
func allowsUnnamed(rules []rbacv1.PolicyRule, of rbacv1.PolicyRule, verb string) bool {
	covers := func(have, want []string) bool {
		return slices.Contains(have, "*") || !slices.ContainsFunc(want, func(w string) bool {
			return !slices.Contains(have, w)
		})
	}
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return len(r.ResourceNames) == 0 && covers(r.Verbs, []string{verb}) && covers(r.APIGroups, of.APIGroups) &&
			covers(r.Resources, of.Resources)
	})
}

// resourceNames finds names in a role's rule that are nearly those of objects, and verbs that names
// cannot let pass.
func resourceNames(c *Cluster, r rbacv1.PolicyRule, self Object, at string) []Finding {
	var out []Finding
	if len(r.ResourceNames) == 0 || len(r.Resources) == 0 {
		return nil
	}
	for j, v := range r.Verbs {
		if !slices.Contains(nameless, v) || strings.Contains(r.Resources[0], "/") {
			continue
		}
		out = append(out, Finding{Code: "NameNotAsked", Severity: Threat, Stage: StageCreation, Object: self,
			Field: fmt.Sprintf("%s.verbs[%d]", at, j), Value: v, Message: fmt.Sprintf("%s %s allows %s of %s with "+
				"resourceNames %s, and a POST carries no name: this allows none. A rule of its own without "+
				"resourceNames would.", self.Kind, self.Name, v, joined(r.Resources), joined(r.ResourceNames)),
			Remedies: []Remedy{{Say: fmt.Sprintf("add a rule without names for %s: it allows it for every name", v),
				Run: []string{kubectl(self, "patch", "--type=json -p "+quotedRule(r, v))}}}})
	}
	kind := c.kindOfResource(r.Resources[0])
	if len(r.Resources) != 1 || kind == "" || !ownGroups(r.APIGroups) {
		return out
	}
	for j, n := range r.ResourceNames {
		to := Object{kind, self.Namespace, n}
		if !c.knows(to) || c.Get(to) != nil || self.Namespace == "" {
			continue
		}
		near, how := Near(n, c.names(kind, self.Namespace))
		if near == "" || slices.Contains(r.ResourceNames, near) {
			continue // it may come later
		}
		f := Finding{Code: "ReferenceMissing", Severity: Threat, Stage: StageReference, Object: self,
			Field: fmt.Sprintf("%s.resourceNames[%d]", at, j), Value: n, Want: near,
			Related: []Object{to, {kind, self.Namespace, near}},
			Message: fmt.Sprintf("%s %s is about %s %s, and there "+
				"is none. There is %s: perhaps that was meant; %s.", self.Kind, self.Name, kind, n, near, how)}
		f.setTo(c, jsonText(near))
		out = append(out, f)
	}
	return out
}

// subjectsElsewhere finds groups of service accounts of namespaces that are not there, and accounts
// that are meant in another namespace.
func subjectsElsewhere(c *Cluster, o metav1.Object, self Object) []Finding {
	var out []Finding
	if !c.Read("Namespace") {
		return nil
	}
	have := c.names("Namespace", "")
	for i, s := range subjectsOf(o) {
		field, value, ns, before := fmt.Sprintf("subjects[%d].name", i), s.Name, "", "system:serviceaccounts:"
		rest, group := strings.CutPrefix(s.Name, before)
		switch {
		case s.Kind == rbacv1.GroupKind && group:
			ns = rest
		case s.Kind == rbacv1.ServiceAccountKind:
			field, value, ns, before = fmt.Sprintf("subjects[%d].namespace", i), s.Namespace, s.Namespace, ""
		default:
			continue
		}
		if slices.Contains(have, ns) || ns == "" {
			continue
		}
		f := Finding{Code: "ReferenceMissing", Severity: Threat, Stage: StageReference, Object: self, Field: field,
			Value: value, Related: []Object{{"Namespace", "", ns}},
			Message: fmt.Sprintf("%s %s gives rights to %s %s, "+
				"and there is no namespace %s.", self.Kind, self.Name, s.Kind, s.Name, ns)}
		if before == "" {
			f.Severity = Broken
		}
		if c.Get(Object{"ServiceAccount", self.Namespace, s.Name}) != nil && before == "" {
			f.Want = self.Namespace
		} else if near, _ := Near(ns, have); near != "" {
			f.Want = before + near
		}
		if f.Want != "" {
			f.Message += fmt.Sprintf(" Perhaps %s was meant.", f.Want)
			f.setTo(c, jsonText(f.Want))
		}
		out = append(out, f)
	}
	return out
}

// gathersNothing finds a ClusterRole whose rules are those of roles that there are not.
func gathersNothing(c *Cluster, o metav1.Object, self Object) []Finding {
	x, ok := o.(*rbacv1.ClusterRole)
	if !ok || x.AggregationRule == nil || c.isBootstrap(self) {
		return nil
	}
	var among []labelled
	for _, r := range list[*rbacv1.ClusterRole](c, "ClusterRole") {
		among = append(among, labelled{objectOf("ClusterRole", r), r.Labels})
	}
	var out []Finding
	for i := range x.AggregationRule.ClusterRoleSelectors {
		s := &x.AggregationRule.ClusterRoleSelectors[i]
		match, err := metav1.LabelSelectorAsSelector(s)
		if err != nil || slices.ContainsFunc(among,
			func(r labelled) bool { return match.Matches(labels.Set(r.labels)) }) {
			continue
		}
		f := Finding{Code: "SelectsNothing", Severity: Threat, Stage: StageReference, Object: self,
			Field: fmt.Sprintf("aggregationRule.clusterRoleSelectors[%d]", i), Value: match.String(),
			Message: fmt.Sprintf("ClusterRole %s has the rules of roles with %s, and there is none: it allows nothing "+
				"by that.", self.Name, match)}
		if d, ok := nearestLabels(wantedLabels(s), among); ok {
			f.describe(d)
			f.Remedies = []Remedy{c.selectIn(self, f.Field, s, d)}
		}
		out = append(out, f)
	}
	return out
}

// quotedRule is a patch, as a word for a shell, that adds a rule without names for one verb.
func quotedRule(r rbacv1.PolicyRule, verb string) string {
	raw, err := json.Marshal([]map[string]any{{"op": "add", "path": "/rules/-", "value": rbacv1.PolicyRule{
		APIGroups: r.APIGroups, Resources: r.Resources, Verbs: []string{verb}}}})
	if err != nil {
		return "''" // strings always marshal
	}
	return shellquote.Quoted(string(raw))
}

// verbsOf are the API's verbs for those of HTTP and of databases.
var verbsOf = map[string]string{"post": "create", "put": "update", "read": "get", "write": "update", "remove": "delete",
	"edit": "update", "modify": "update", "add": "create", "head": "get", "view": "get"}

// verbMeant is the verb that was probably meant by a word that is none.
func verbMeant(word string) (meant, how string) {
	if slices.Contains(verbs, word) || word == "*" {
		return "", ""
	}
	if v := verbsOf[strings.ToLower(word)]; v != "" {
		return v, "that is the API's verb for it"
	}
	return Near(word, verbs)
}
