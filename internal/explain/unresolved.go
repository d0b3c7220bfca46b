package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// unresolvedFinding blames what a name in a container's last lines does not resolve for: the word
// that names it, the name servers of the Pod, or a policy that keeps it from them.
func unresolvedFinding(in In, c container, at, words string) (finding.Finding, bool) {
	host, _ := unresolvedHost(words)
	var a Answer
	if host == "" || !nameUnresolved(&a, in, c, words) || a.Cause == "" {
		return finding.Finding{}, false
	}
	f := finding.Finding{Code: "DependencyFails", Stage: finding.StageRun, Object: in.object(),
		Message: strings.TrimSpace(a.Cause), Remedies: asRemedies(a.Fixes)}
	f.Field, f.Value = hostField(c, at, host)
	if near, ok := strings.CutPrefix(firstSay(a.Fixes), "ask for "); ok {
		f.Want = near
	}
	spec := &in.Pod.Spec
	switch p := policiesBlockingDNS(in); {
	case p != nil:
		f.Object, f.Related = finding.Object{Kind: "NetworkPolicy", Namespace: p.Namespace, Name: p.Name},
			[]finding.Object{f.Object}
		f.Field, f.Value = "spec.egress", host
	case spec.DNSPolicy == corev1.DNSNone && spec.DNSConfig != nil && strings.Contains(a.Cause, "dnsPolicy None"):
		f.Field, f.Value = "spec.dnsConfig.nameservers", strings.Join(spec.DNSConfig.Nameservers, ",")
		f.Related = []finding.Object{{Kind: "Service", Namespace: in.Ref.Namespace, Name: host}}
	}
	return f, true
}

// notReached are words by which a program says that nobody answered at an address.
var notReached = []string{"refused", "timeout", "timed out", "deadline exceeded", "unreachable", "no route", "reset"}

// otherAlias is an entry of a Pod's hostAliases that gives a name, whose address a line says is not
// reached, an address of its own: name servers are not asked for it.
func otherAlias(in In, line string) (restriction, bool) {
	low := strings.ToLower(line)
	if !slices.ContainsFunc(notReached, func(w string) bool { return strings.Contains(low, w) }) {
		return restriction{}, false
	}
	words := strings.FieldsFunc(low, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789.-", r)
	})
	for i, alias := range in.Pod.Spec.HostAliases {
		for _, name := range alias.Hostnames {
			if !slices.Contains(words, name) {
				continue
			}
			short, _, ok := serviceName(name, in.Ref.Namespace)
			service := ok && in.NamespaceContext != nil && in.NamespaceContext.service(short) != nil
			if !service && !slices.Contains(words, alias.IP) {
				continue
			}
			r := restriction{field: fmt.Sprintf("spec.hostAliases[%d]", i), value: alias.IP, text: fmt.Sprintf(
				"It asks for %s, and hostAliases gives that name the address %s: no name server is asked for it.", name,
				alias.IP)}
			if service {
				r.text += fmt.Sprintf(" Service %s, which the name else leads to, is not asked.", short)
			}
			r.fixes = []Fix{editedPodFix(in, fmt.Sprintf("leave %s out of hostAliases", name), func(s *corev1.PodSpec) {
				s.HostAliases = withoutAlias(s.HostAliases, name)
			}), {Description: fmt.Sprintf("or give it the address that is meant instead of %s", alias.IP)}}
			return r, true
		}
	}
	return restriction{}, false
}

// withoutAlias leaves a name out of hostAliases.
func withoutAlias(list []corev1.HostAlias, name string) []corev1.HostAlias {
	var out []corev1.HostAlias
	for _, a := range list {
		a.Hostnames = slices.DeleteFunc(slices.Clone(a.Hostnames), func(s string) bool { return s == name })
		if len(a.Hostnames) > 0 {
			out = append(out, a)
		}
	}
	return out
}

// UnresolvedServices are the Services that containers, by their last lines, ask for by a name alone
// that does not resolve; other namespaces may have them.
func UnresolvedServices(in In) []finding.Object {
	var out []finding.Object
	for _, name := range slices.Sorted(maps.Keys(in.LastLogs)) {
		host, _ := unresolvedHost(in.LastLogs[name])
		short, full, ok := serviceName(host, in.Ref.Namespace)
		if host != "" && ok && !full && !strings.ContainsAny(short, ". $(") {
			out = append(out, finding.Object{Kind: "Service", Namespace: in.Ref.Namespace, Name: short})
		}
	}
	return out
}
