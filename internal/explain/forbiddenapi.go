package explain

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/explain/shellquote"
)

// apiRefusal matches the API server's words for a request that no role allows.
var apiRefusal = regexp.MustCompile(`User \\?"system:serviceaccount:([a-z0-9-]+):([a-z0-9.-]+)\\?" cannot ([a-z]+) ` +
	`resource \\?"([a-z0-9./-]+)\\?" in API group \\?"([a-z0-9.-]*)\\?"( at the cluster scope| in the namespace ` +
	`\\?"([a-z0-9-]+)\\?")?`)

// notAllowed is a request of a container to the API that no role of its account allows.
func notAllowed(in In, line string) (restriction, bool) {
	m := apiRefusal.FindStringSubmatch(line)
	if m == nil {
		return restriction{}, false
	}
	home, account, verb, what, group, namespace := m[1], m[2], m[3], m[4], m[5], m[7]
	own := in.Pod.Spec.ServiceAccountName
	if own == "" {
		own = "default"
	}
	if home != in.Ref.Namespace || account != own || m[6] == "" {
		return restriction{}, false // words about another account, or cut off before the namespace
	}
	resource, _, _ := strings.Cut(what, "/")
	for _, word := range []string{home, account, verb, what} {
		if shellquote.Word(word) != word {
			return restriction{}, false
		}
	}
	named := what
	if group != "" {
		named = strings.Replace(what, resource, resource+"."+group, 1)
	}
	name, kind, in2 := account+"-"+verb+"-"+strings.ReplaceAll(what, "/", "-"), "clusterrole", ""
	where := "in every namespace"
	if namespace != "" {
		kind, in2, where = "role", " -n "+namespace, "in namespace "+namespace
	}
	r := restriction{field: "spec.serviceAccountName", value: account, want: "", text: fmt.Sprintf("It may not %s %s "+
		"%s: no role gives that to its ServiceAccount %s.", verb, named, where, account)}
	r.fixes = []Fix{commandFix(fmt.Sprintf("let the account %s %s: everything that runs as it may do that then", verb,
		named), fmt.Sprintf("kubectl%s create %s %s --verb=%s --resource=%s", in2, kind, name, verb, named),
		fmt.Sprintf("kubectl%s create %sbinding %s --%s=%s --serviceaccount=%s:%s", in2, kind, name, kind, name, home,
			account))}
	near, ok := in.Objects.NearRight(finding.Object{Kind: "ServiceAccount", Namespace: home, Name: account},
		finding.Request{Verb: verb, Group: group, Resource: what, Namespace: namespace})
	if ok {
		r.object, r.field, r.value, r.want = near.Object, near.Field, near.Value, near.Want
		r.text += " " + near.Message
		r.fixes = append(remedies(near.Remedies), r.fixes...)
	}
	return r, true
}

// tokenOfAccount is the ServiceAccount of a Pod that gives no token to its Pods.
func tokenOfAccount(in In) (restriction, bool) {
	name := in.Pod.Spec.ServiceAccountName
	if no := in.Pod.Spec.AutomountServiceAccountToken; no != nil || in.Objects == nil || name == "" {
		return restriction{}, false
	}
	o := finding.Object{Kind: "ServiceAccount", Namespace: in.Ref.Namespace, Name: name}
	if !in.Objects.GivesNoToken(o) {
		return restriction{}, false
	}
	return restriction{object: o, field: "automountServiceAccountToken", value: "false", want: "true",
		text: fmt.Sprintf("It wants the token of ServiceAccount %s, whose automountServiceAccountToken is false: none "+
			"is given.", name), fixes: []Fix{commandFix("let the account give it: its other Pods get it too, when "+
			"they are made anew", fmt.Sprintf("kubectl -n %s patch serviceaccount %s --type=merge -p "+
			`'{"automountServiceAccountToken":true}'`, in.Ref.Namespace, shellquote.Word(name)),
			fmt.Sprintf("kubectl -n %s get pod %s -o json | kubectl replace --force -f -", in.Ref.Namespace,
				shellquote.Word(in.Ref.Name)))}}, true
}
