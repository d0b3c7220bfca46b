package finding

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// searches finds a Pod that completes names by its own list alone (dnsPolicy None), in which its
// namespace is not, and that names a Service of its namespace without the namespace.
func searches(c *Cluster, o metav1.Object, self Object) []Finding {
	spec, at := podSpecOf(o)
	if spec == nil || spec.DNSPolicy != corev1.DNSNone || spec.DNSConfig == nil || asksOthers(c, spec) {
		return nil
	}
	list := spec.DNSConfig.Searches
	if slices.ContainsFunc(list, func(s string) bool { return strings.HasPrefix(s, self.Namespace+".svc.") }) {
		return nil
	}
	var out []Finding
	eachContainer(o, self, func(x place) []Finding {
		for _, a := range c.addressesOf(x.c, self.Namespace) {
			if to := (Object{"Service", self.Namespace, a.host}); len(out) == 0 && c.Get(to) != nil {
				out = []Finding{c.searched(to, self, searchList{at, x.at + "." + a.field, list})}
			}
		}
		return nil
	})
	return out
}

// searchList is where a Pod's list of domains is, and which of its texts needs it.
type searchList struct {
	at, used string
	domains  []string
}

// searched is a Service's name that a Pod's list of domains does not complete.
func (c *Cluster) searched(to, self Object, l searchList) Finding {
	want := self.Namespace + ".svc." + clusterDomain
	f := Finding{Code: "SearchesElsewhere", Severity: Threat, Stage: StageTraffic, Object: self,
		Field: l.at + ".dnsConfig.searches", Value: strings.Join(l.domains, ","), Want: want, Related: []Object{to},
		Message: fmt.Sprintf("%s %s names Service %s (%s) without its namespace, and has dnsPolicy None: the name is "+
			"completed by dnsConfig.searches alone, %s, and %s is not there.", self.Kind, self.Name, to.Name, l.used,
			orNone(l.domains, "which is empty"), want)}
	patch := fmt.Sprintf(`[{"op":"add","path":%s,"value":[%s]}]`, jsonText(pointer(f.Field)), jsonText(want))
	if i := slices.IndexFunc(l.domains, func(d string) bool { return strings.Contains(d, ".svc.") }); i >= 0 {
		patch = fmt.Sprintf(`[{"op":"replace","path":%s,"value":%s}]`, jsonText(fmt.Sprintf("%s/%d", pointer(f.Field),
			i)), jsonText(want))
	}
	f.Remedies = []Remedy{{Say: "search in its own namespace", Run: c.patchCommand(self, patch)}, {
		Say: fmt.Sprintf("or name it with its namespace: %s.%s", to.Name, want)}}
	return f
}
