package finding

import (
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ingressPath is a path of a rule of an Ingress with what serves it.
type ingressPath struct {
	rule, path int
	key        string // host, kind of path and path: what a request is held against
	to         string
}

// pathsOf are the paths of an Ingress.
func pathsOf(x *networkingv1.Ingress) []ingressPath {
	var out []ingressPath
	for i, r := range x.Spec.Rules {
		if r.HTTP == nil {
			continue
		}
		for j, p := range r.HTTP.Paths {
			kind := networkingv1.PathTypeImplementationSpecific
			if p.PathType != nil {
				kind = *p.PathType
			}
			path := p.Path
			if kind == networkingv1.PathTypePrefix {
				path = strings.TrimSuffix(path, "/")
			}
			to := "another resource"
			if s := p.Backend.Service; s != nil {
				to = fmt.Sprintf("Service %s, port %s%s", s.Name, s.Port.Name, numberOr(s.Port.Number))
			}
			out = append(out, ingressPath{i, j, strings.ToLower(r.Host) + " " + string(kind) + " " + path, to})
		}
	}
	return out
}

func numberOr(n int32) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// sharedPaths finds two Ingresses of one class that send one host and path to different Services: a
// controller can obey one of them alone, often the older.
func sharedPaths(c *Cluster, o metav1.Object, self Object) []Finding {
	x, ok := o.(*networkingv1.Ingress)
	if !ok {
		return nil
	}
	out := pathTwice(x, self)
	for _, other := range list[*networkingv1.Ingress](c, "Ingress") {
		if other.Name == x.Name && other.Namespace == x.Namespace || classOfIngress(other) != classOfIngress(x) {
			continue
		}
		for _, a := range pathsOf(x) {
			for _, b := range pathsOf(other) {
				host, _, _ := strings.Cut(a.key, " ")
				if a.key != b.key || a.to == b.to && x.Namespace == other.Namespace || host == "" {
					continue // those without host are catch-alls
				}
				path := x.Spec.Rules[a.rule].HTTP.Paths[a.path].Path
				older := other.Name
				if x.CreationTimestamp.Before(&other.CreationTimestamp) {
					older = x.Name
				}
				out = append(out, Finding{Code: "PathTaken", Severity: Threat, Stage: StageTraffic, Object: self,
					Field: fmt.Sprintf("spec.rules[%d].http.paths[%d].path", a.rule, a.path), Value: host + path,
					Related: []Object{objectOf("Ingress", other)}, Message: fmt.Sprintf("Ingresses %s and %s both "+
						"have %s%s: one sends it to %s, the other to %s, and a controller can obey one alone, often "+
						"the older (%s).", self.Name, other.Name, host, path, a.to, b.to, older),
					Remedies: []Remedy{{Say: fmt.Sprintf("give one of them another host or path, or delete it: %s "+
						"serves it then", other.Name)}}})
			}
		}
	}
	return out[:min(len(out), 3)]
}

// pathTwice finds a path that an Ingress itself has twice, for different Services.
func pathTwice(x *networkingv1.Ingress, self Object) []Finding {
	first := map[string]ingressPath{}
	var out []Finding
	for _, p := range pathsOf(x) {
		was, twice := first[p.key]
		if !twice {
			first[p.key] = p
			continue
		}
		if was.to == p.to {
			continue
		}
		r := x.Spec.Rules[p.rule]
		at := fmt.Sprintf("spec.rules[%d].http.paths[%d]", p.rule, p.path)
		out = append(out, Finding{Code: "PathTaken", Severity: Threat, Stage: StageTraffic, Object: self,
			Field: at + ".path", Value: r.Host + r.HTTP.Paths[p.path].Path,
			Message: fmt.Sprintf("Ingress %s has %s%s twice, in spec.rules[%d].http.paths[%d] for %s and in %s for "+
				"%s: one of them alone gets requests.",
				self.Name, r.Host, r.HTTP.Paths[p.path].Path, was.rule, was.path,
				was.to,
				at, p.to), Remedies: []Remedy{{Say: "remove the one that is not meant, or give it another path",
				Run: []string{kubectl(self, "patch", fmt.Sprintf(`--type=json -p '[{"op":"remove","path":%s}]'`,
					jsonText(pointer(at))))}}}})
	}
	return out
}

// classOfIngress is the class that an Ingress asks for; empty: the default one.
func classOfIngress(x *networkingv1.Ingress) string {
	if x.Spec.IngressClassName != nil {
		return *x.Spec.IngressClassName
	}
	return x.Annotations["kubernetes.io/ingress.class"]
}
