package finding

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Served is what an API group serves: plural names, subresources as plural/sub. The core group is
// "".
type Served map[string][]string

// groupsOf are the groups that serve a resource.
func (s Served) groupsOf(resource string) []string {
	var out []string
	for g, names := range s {
		if slices.Contains(names, resource) {
			out = append(out, g)
		}
	}
	slices.Sort(out)
	return out
}

var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "use", "bind",
	"escalate", "impersonate", "approve", "sign", "attest", "request-serviceaccounts-token-audience"}

// role finds rules about resources, groups and verbs that there are not.
func role(c *Cluster, o metav1.Object, self Object) []Finding {
	var rules []rbacv1.PolicyRule
	switch x := o.(type) {
	case *rbacv1.Role:
		rules = x.Rules
	case *rbacv1.ClusterRole:
		rules = x.Rules
	}
	var out []Finding
	for i, r := range rules {
		at := fmt.Sprintf("rules[%d]", i)
		for j, name := range r.Resources {
			if f, ok := c.servedBy(self, name, r.APIGroups, ruleAt{at, j}); ok {
				out = append(out, f)
			}
		}
		out = append(out, slices.DeleteFunc(resourceNames(c, r, self, at), func(f Finding) bool {
			return f.Code == "NameNotAsked" && allowsUnnamed(rules, r, f.Value)
		})...)
		for j, v := range r.Verbs {
			if len(r.NonResourceURLs) > 0 {
				break // the verbs of HTTP hold there
			}
			if near, how := verbMeant(v); near != "" {
				f := Finding{Code: "VerbUnknown", Severity: Threat, Stage: StageCreation, Object: self,
					Field: fmt.Sprintf("%s.verbs[%d]", at, j), Value: v, Want: near, Message: fmt.Sprintf("%s %s "+
						"allows %s, which is no verb of the API. Perhaps %s was meant; %s.",
						self.Kind, self.Name, v, near,
						how)}
				f.setTo(c, jsonText(near))
				out = append(out, f)
			}
		}
	}
	return out
}

// ruleAt is the path of a rule, and which of its resources is looked at.
type ruleAt struct {
	at    string
	index int
}

// isBootstrap tells whether Kubernetes itself made a role: its rules are also about groups that
// need not be served.
func (c *Cluster) isBootstrap(o Object) bool {
	x := c.Get(o)
	return x != nil && x.GetLabels()["kubernetes.io/bootstrapping"] == "rbac-defaults"
}

// isAddOn tells whether none of the groups is served or near one that is: what serves them may be
// installed later.
func (c *Cluster) isAddOn(groups []string) bool {
	served := slices.Collect(maps.Keys(c.Served))
	return !slices.ContainsFunc(groups, func(g string) bool {
		near, _ := Near(g, served)
		_, meant := groupMeant(g)
		return len(c.Served[g]) > 0 || near != "" || meant || !strings.Contains(g, ".") // Kubernetes' own
	})
}

// servedBy finds a resource that none of the groups serves, and where it is or what is near.
func (c *Cluster) servedBy(self Object, name string, groups []string, r ruleAt) (Finding, bool) {
	at, field := r.at, fmt.Sprintf("%s.resources[%d]", r.at, r.index)
	if len(c.Served) == 0 || strings.Contains(name, "*") || slices.Contains(groups, "*") || c.isBootstrap(self) {
		return Finding{}, false
	}
	var near []string
	for _, g := range groups {
		if slices.Contains(c.Served[g], name) || len(c.Served[g]) == 0 && len(groups) > 1 {
			return Finding{}, false
		}
		near = append(near, c.Served[g]...)
	}
	f := Finding{Code: "ResourceUnknown", Severity: Threat, Stage: StageCreation, Object: self, Field: field,
		Value: name, Message: fmt.Sprintf("%s %s is about %s of API group %q, which serves no such resource.",
			self.Kind,
			self.Name, name, strings.Join(groups, ","))}
	if c.isAddOn(groups) {
		f.Severity = Note
		f.Message = fmt.Sprintf("%s %s is about %s of API group %q, which the API server does not serve: until "+
			"what brings it is installed, this is about nothing.", self.Kind, self.Name, name,
			strings.Join(groups, ","))
		return f, strings.HasSuffix(self.Kind, "Role")
	}
	elsewhere := c.Served.groupsOf(name)
	for _, g := range groups {
		if meant, ok := groupMeant(g); ok && slices.Contains(elsewhere, meant) {
			elsewhere = []string{meant}
			f.Message += fmt.Sprintf(" %s is a version or has one: groups are named without.", g)
		}
	}
	if len(elsewhere) > 0 {
		f.Code, f.Field, f.Want = "GroupDiffers", at+".apiGroups", elsewhere[0]
		f.Value = strings.Join(groups, ",")
		f.Message += fmt.Sprintf(" It is of group %q.", elsewhere[0])
		if len(groups) == 1 {
			f.Remedies = []Remedy{{Say: fmt.Sprintf("set the group to %q", elsewhere[0]), Run: c.replaceCommand(self,
				at+".apiGroups[0]", elsewhere[0])}}
		}
		return f, true
	}
	var how string
	if f.Want, how = Near(name, near); f.Want == "" {
		var all []string
		for _, names := range c.Served {
			all = append(all, names...)
		}
		if f.Want, how = Near(name, all); f.Want == "" {
			return f, len(c.Served[groups[0]]) > 0 // a group of its own may come later
		}
	}
	f.Message += fmt.Sprintf(" Perhaps %s was meant; %s.", f.Want, how)
	f.setTo(c, jsonText(f.Want))
	return f, true
}

// subjectsOf are the subjects of a binding.
func subjectsOf(o metav1.Object) []rbacv1.Subject {
	switch x := o.(type) {
	case *rbacv1.RoleBinding:
		return x.Subjects
	case *rbacv1.ClusterRoleBinding:
		return x.Subjects
	}
	return nil
}

// subjects finds subjects of a binding that are of another kind or namespace than they say.
func subjects(c *Cluster, o metav1.Object, self Object) []Finding {
	var out []Finding
	for i, s := range subjectsOf(o) {
		field := fmt.Sprintf("subjects[%d]", i)
		name, ns := s.Name, self.Namespace
		rest, account := strings.CutPrefix(s.Name, "system:serviceaccount:")
		if account {
			ns, name, _ = strings.Cut(rest, ":")
		}
		to := Object{"ServiceAccount", ns, name}
		switch {
		case s.Kind == rbacv1.ServiceAccountKind || !c.knows(to):
		case account && s.Kind == rbacv1.UserKind && c.Get(to) == nil:
			f, _ := c.missing(Reference{Field: field + ".name", To: to}, self)
			f.Value = s.Name
			if f.Want != "" {
				f.Want = "system:serviceaccount:" + ns + ":" + f.Want
			}
			f.Remedies = nil
			f.setTo(c, jsonText(f.Want))
			out = append(out, f)
		case !account && c.Get(to) != nil:
			out = append(out, Finding{Code: "SubjectKind", Severity: Threat, Stage: StageCreation, Object: self,
				Field: field + ".kind", Value: s.Kind, Want: "ServiceAccount", Related: []Object{to},
				Message: fmt.Sprintf("%s %s gives rights to the %s %s; there is a ServiceAccount of that name, which "+
					"does not get them.", self.Kind, self.Name, s.Kind, s.Name),
				Remedies: []Remedy{{Say: "name the service account", Run: c.setCommand(self, field, fmt.Sprintf(
					`{"kind":"ServiceAccount","name":%s,"namespace":%s}`, jsonText(s.Name), jsonText(to.Namespace)))}}})
		}
	}
	return out
}

// webhookRules finds rules and selectors of webhooks that are about nothing.
func webhookRules(c *Cluster, o metav1.Object, self Object) []Finding {
	var out []Finding
	look := func(i int, rules []admissionv1.RuleWithOperations, ns *metav1.LabelSelector) {
		for j, r := range rules {
			at := fmt.Sprintf("webhooks[%d].rules[%d]", i, j)
			for k, name := range r.Resources {
				if f, ok := c.servedBy(self, name, r.APIGroups, ruleAt{at, k}); ok {
					out = append(out, f)
				}
			}
		}
		want := wantedLabels(ns)
		s, err := metav1.LabelSelectorAsSelector(ns)
		if len(want) == 0 || err != nil || !c.Read("Namespace") || len(selected(want, c.labelledNamespaces())) > 0 {
			return
		}
		f := Finding{Code: "SelectsNothing", Severity: Threat, Stage: StageCreation, Object: self,
			Field: fmt.Sprintf("webhooks[%d].namespaceSelector", i), Value: s.String(), Message: fmt.Sprintf("%s "+
				"%s asks about namespaces with %s, and there is none: it is never asked.", self.Kind, self.Name, s)}
		if d, ok := nearestLabels(want, c.labelledNamespaces()); ok {
			f.describe(d)
			f.Remedies = []Remedy{c.selectIn(self, f.Field, ns, d)}
		}
		out = append(out, f)
	}
	switch x := o.(type) {
	case *admissionv1.ValidatingWebhookConfiguration:
		for i, w := range x.Webhooks {
			look(i, w.Rules, w.NamespaceSelector)
		}
	case *admissionv1.MutatingWebhookConfiguration:
		for i, w := range x.Webhooks {
			look(i, w.Rules, w.NamespaceSelector)
		}
	}
	return out
}

// admissionPolicy finds a policy that nothing binds, and rules about what is not served.
func admissionPolicy(c *Cluster, o metav1.Object, self Object) []Finding {
	p, ok := o.(*admissionv1.ValidatingAdmissionPolicy)
	if !ok {
		return nil
	}
	var out []Finding
	if c.Read("ValidatingAdmissionPolicyBinding") && !slices.ContainsFunc(list[*admissionv1.
		ValidatingAdmissionPolicyBinding](c, "ValidatingAdmissionPolicyBinding"),
		func(b *admissionv1.ValidatingAdmissionPolicyBinding) bool { return b.Spec.PolicyName == p.Name }) {
		out = append(out, Finding{Code: "PolicyUnbound", Severity: Threat, Stage: StageCreation, Object: self,
			Field: "metadata.name", Value: p.Name, Message: fmt.Sprintf("No ValidatingAdmissionPolicyBinding names "+
				"policy %s: it checks nothing.", p.Name)})
	}
	if t := p.Status.TypeChecking; t != nil {
		for _, w := range t.ExpressionWarnings {
			out = append(out, Finding{Code: "ExpressionWrong", Severity: Threat, Stage: StageCreation, Object: self,
				Field: w.FieldRef, Value: w.Warning, Message: fmt.Sprintf("Policy %s: %s: %s", p.Name, w.FieldRef,
					w.Warning)})
		}
	}
	return out
}
