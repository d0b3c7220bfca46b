package finding

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/workload"
)

// clusterDomain is the domain of Services where kubelets are not told another.
const clusterDomain = "cluster.local"

// clusterHost is a host in a text, read as a name of the cluster's:
// POD.SERVICE.NAMESPACE.svc.DOMAIN, of which only SERVICE need be there.
type clusterHost struct {
	pod, service, namespace, domain string
	whole                           bool // nothing but a Service's name can look so
}

// clusterHostOf reads a host as a name of the cluster's, as seen from a namespace; ok is false for
// addresses and for what may be a name outside.
func (c *Cluster) clusterHostOf(host, ns string) (h clusterHost, ok bool) {
	parts := strings.Split(strings.ToLower(host), ".")
	if slices.Contains(parts, "") || strings.Trim(host, "0123456789.:") == "" {
		return h, false
	}
	there := func(kind, namespace, name string) bool { return c.Get(Object{kind, namespace, name}) != nil }
	switch at := slices.Index(parts, "svc"); {
	case at == 2:
		return clusterHost{"", parts[0], parts[1], strings.Join(parts[3:], "."), true}, true
	case at == 3:
		return clusterHost{parts[0], parts[1], parts[2], strings.Join(parts[4:], "."), true}, true
	case len(parts) == 1:
		return clusterHost{service: parts[0], namespace: ns}, true
	case len(parts) == 2 && there("Service", ns, parts[1]):
		return clusterHost{pod: parts[0], service: parts[1], namespace: ns}, true
	case len(parts) == 2 && there("Namespace", "", parts[1]):
		_, public := publicsuffix.PublicSuffix(parts[1]) // as namespaces may be called dev, app or shop
		return clusterHost{service: parts[0], namespace: parts[1], whole: !public}, true
	case len(parts) == 3 && there("Service", parts[2], parts[1]):
		return clusterHost{pod: parts[0], service: parts[1], namespace: parts[2]}, true
	}
	return h, false
}

// unknownHosts finds hosts in a container's command, arguments and variables that the cluster's
// name servers do not know: of a namespace, Service or Pod that is not there, or of another domain.
func unknownHosts(c *Cluster, o metav1.Object, self Object) []Finding {
	spec, _ := podSpecOf(o)
	if spec == nil || spec.DNSConfig != nil || spec.DNSPolicy == corev1.DNSDefault || spec.HostNetwork ||
		metav1.GetControllerOf(o) != nil {
		return nil // it may ask others, or what makes it says so
	}
	return eachContainer(o, self, func(x place) []Finding {
		var out []Finding
		for _, a := range c.addressesOf(x.c, self.Namespace) {
			if slices.ContainsFunc(spec.HostAliases, func(h corev1.HostAlias) bool {
				return slices.Contains(h.Hostnames, a.host)
			}) || a.host == "localhost" || a.host == spec.Hostname || a.host == self.Name {
				continue
			}
			f := Finding{Code: "HostUnknown", Severity: Threat, Stage: StageTraffic, Object: self,
				Field: x.at + "." + a.field, Value: a.host}
			if h, ok := c.clusterHostOf(a.host, self.Namespace); ok && c.unknown(&f, h) {
				f.Message = fmt.Sprintf("Container %s of %s %s names the host %s (%s), and no name server of the "+
					"cluster knows it: %s", x.c.Name, self.Kind, self.Name, a.host, f.Field, f.Message)
				c.hostInstead(&f, x.c, a)
				out = append(out, f)
			}
		}
		return out[:min(len(out), 3)]
	})
}

// MissingServices are the Services of an object's own namespace, or of others, that its containers
// name and that are not there: another namespace may have them.
func (c *Cluster) MissingServices(self Object) []Object {
	o := c.Get(self)
	if o == nil {
		return nil
	}
	return slices.DeleteFunc(c.namedServices(o, self), func(to Object) bool { return !c.knows(to) || c.Get(to) != nil })
}

// namedServices are the Services that an object's containers name, each once, whether they are
// there or not.
func (c *Cluster) namedServices(o metav1.Object, self Object) []Object {
	var out []Object
	eachContainer(o, self, func(x place) []Finding {
		for _, a := range c.addressesOf(x.c, self.Namespace) {
			h, ok := c.clusterHostOf(a.host, self.Namespace)
			to := Object{"Service", h.namespace, h.service}
			if ok && h.pod == "" && !slices.Contains(out, to) {
				out = append(out, to)
			}
		}
		return nil
	})
	return out
}

// unknown tells what of a name is not there, and what was probably meant.
func (c *Cluster) unknown(f *Finding, h clusterHost) bool {
	to := Object{"Service", h.namespace, h.service}
	if c.noNamespace(to) {
		f.Message = fmt.Sprintf("there is no namespace %s.", h.namespace)
		c.nearPart(f, h.namespace, c.names("Namespace", ""))
		return true
	}
	if !c.knows(to) {
		return false
	}
	s, found := get[*corev1.Service](c, "Service", h.namespace, h.service)
	if !found {
		return c.unknownService(f, h, to)
	}
	if h.pod != "" {
		return c.unknownPod(f, h, s)
	}
	if _, how := Near(h.domain, []string{clusterDomain}); h.domain != "" && h.domain != clusterDomain && how != "" {
		f.Message = fmt.Sprintf("Service %s of namespace %s is there, and the domain of Services is %s, not %s; %s.",
			h.service, h.namespace, clusterDomain, h.domain, how)
		f.Want = strings.TrimSuffix(f.Value, h.domain) + clusterDomain
		return true
	}
	return false
}

// unknownService tells of a Service that is not there. A name without dots may be anything, unless
// a Service has nearly that name or another namespace has one.
func (c *Cluster) unknownService(f *Finding, h clusterHost, to Object) bool {
	others := c.elsewhere(to)
	near, _ := Near(h.service, c.names("Service", h.namespace))
	if !h.whole && near == "" && len(others) == 0 {
		return false
	}
	f.Related = []Object{to}
	f.Message = fmt.Sprintf("there is no Service %s in namespace %s.", h.service, h.namespace)
	if near != "" {
		c.nearPart(f, h.service, []string{near})
	} else if len(others) > 0 {
		f.Message += fmt.Sprintf(" Namespace %s has one.", joined(others))
		f.Related = append(f.Related, Object{"Service", others[0], h.service})
		f.Want = strings.Replace(f.Value, h.service, h.service+"."+others[0], 1)
		if h.whole {
			f.Want = strings.Replace(f.Value, "."+h.namespace, "."+others[0], 1)
		}
	}
	return true
}

// unknownPod tells of a Pod's name below a Service where no Pod has it: of a StatefulSet only those
// of its ordinals do, below its serviceName.
func (c *Cluster) unknownPod(f *Finding, h clusterHost, s *corev1.Service) bool {
	if len(s.Spec.Selector) == 0 || !c.whole(h.namespace) || !c.Read("StatefulSet") {
		return false
	}
	for _, p := range in[*corev1.Pod](c, "Pod", h.namespace) {
		if p.Spec.Hostname == h.pod && p.Spec.Subdomain == h.service {
			return false
		}
	}
	for _, x := range in[*appsv1.StatefulSet](c, "StatefulSet", h.namespace) {
		rest, of := strings.CutPrefix(h.pod, x.Name+"-")
		n, err := strconv.Atoi(rest)
		if !of || err != nil {
			continue
		}
		first, want := int(firstOrdinal(x)), int(workload.Replicas(x.Spec.Replicas))
		f.Related = []Object{objectOf("StatefulSet", x)}
		switch {
		case x.Spec.ServiceName != h.service:
			f.Message = fmt.Sprintf("the Pods of StatefulSet %s have names below its serviceName, %s.", x.Name,
				orNone([]string{x.Spec.ServiceName}, "which is none"))
			if x.Spec.ServiceName != "" {
				f.Want = strings.Replace(f.Value, "."+h.service, "."+x.Spec.ServiceName, 1)
			}
			return true
		case n < first || n >= first+want:
			f.Numbers = map[string]string{"replicas": fmt.Sprint(want), "ordinal": rest}
			f.Message = fmt.Sprintf("StatefulSet %s has %d replicas, so that its last Pod is %s-%d.", x.Name, want,
				x.Name, first+want-1)
			f.Remedies = []Remedy{{Say: "run as many Pods of it", Run: []string{kubectl(f.Related[0], "scale",
				fmt.Sprintf("--replicas=%d", n-first+1))}}}
			if n < first || want == 0 {
				f.Remedies = nil
			} else {
				f.Want = strings.Replace(f.Value, h.pod, fmt.Sprintf("%s-%d", x.Name, first+want-1), 1)
			}
			return true
		}
		return false
	}
	return false
}

// nearPart names what was probably meant by one part of the host.
func (c *Cluster) nearPart(f *Finding, part string, have []string) {
	near, how := Near(part, have)
	if near == "" {
		return
	}
	f.Message += fmt.Sprintf(" There is %s: perhaps that was meant; %s.", near, how)
	parts := strings.Split(f.Value, ".")
	if i := slices.Index(parts, part); i >= 0 {
		parts[i] = near
		f.Want = strings.Join(parts, ".")
	}
}

// hostInstead is the remedy that writes the host that was meant, where the text stands in the
// object itself.
func (c *Cluster) hostInstead(f *Finding, x *corev1.Container, a namedAddress) {
	if f.Want == "" {
		return
	}
	r := Remedy{Say: fmt.Sprintf("name %s in %s of %s", f.Want, f.Field, f.Object)}
	for _, t := range askingTexts(x) {
		if t.field == a.field && strings.Contains(t.text, a.host) {
			r.Run = c.replaceCommand(f.Object, f.Field, strings.ReplaceAll(t.text, a.host, f.Want))
		}
	}
	f.Remedies = append([]Remedy{r}, f.Remedies...)
}
