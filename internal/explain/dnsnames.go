package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	policyrules "github.com/gantry-project/gantry/internal/networkpolicy/rules"
	"github.com/gantry-project/gantry/internal/pod"
)

// Log lines about a name without address: who prints them, and the name. Those of the second list
// mean that no server answered.
var (
	unknownHost = []*regexp.Regexp{
		regexp.MustCompile(`lookup (\S+?)(?: on \S+)?: no such host`),                                  // Go
		regexp.MustCompile(`bad address '([^']+)'`),                                                    // busybox
		regexp.MustCompile(`can't (?:resolve|find) '?([^' :]+)'?`),                                     // nslookup
		regexp.MustCompile(`Could not resolve host: (\S+)`),                                            // curl
		regexp.MustCompile(`unable to resolve host address [‘']([^’']+)`),                              // wget
		regexp.MustCompile(`getaddrinfo ENOTFOUND (\S+)`),                                              // Node.js
		regexp.MustCompile(`could not translate host name "([^"]+)"`),                                  // libpq
		regexp.MustCompile(`Unknown (?:MySQL server )?host '([^']+)'`),                                 // MySQL
		regexp.MustCompile(`UnknownHostException: (\S+?):?(?:\s|$)`),                                   // Java
		regexp.MustCompile(`(\S+?): (?:Name or service not known|Name does not resolve|nodename nor)`), // libc
		regexp.MustCompile(`host not found in upstream "([^":]+)`),                                     // nginx
	}
	dnsTimeout = []*regexp.Regexp{
		regexp.MustCompile(`lookup (\S+?)(?: on \S+)?: (?:.*i/o timeout|server misbehaving|.*connection refused)`),
		regexp.MustCompile(`getaddrinfo EAI_AGAIN (\S+)`),
		regexp.MustCompile(`(\S+?): (?:Temporary failure in name resolution|Try again)`),
		regexp.MustCompile(`(connection timed out; no servers could be reached)`),
	}
)

// unresolvedHost is the first name of log lines that does not resolve, empty where they are not
// about one; answered is false where no server answered.
func unresolvedHost(failureText string) (host string, answered bool) {
	for i, list := range [][]*regexp.Regexp{unknownHost, dnsTimeout} {
		for _, r := range list {
			if m := r.FindStringSubmatch(failureText); m != nil {
				return strings.TrimSuffix(strings.Trim(m[1], `"'`), "."), i == 0
			}
		}
	}
	return "", true
}

// nameUnresolved explains why a name in a container's last log lines does not resolve; false if
// they are not about that.
func nameUnresolved(a *Answer, in In, c container, failureText string) bool {
	host, answered := unresolvedHost(failureText)
	if host == "" || in.Pod == nil {
		return false
	}
	unnamed := strings.Contains(host, " ")
	if unnamed {
		host = "a name"
	}
	if p := policiesBlockingDNS(in); p != nil {
		a.Cause += fmt.Sprintf(" It cannot resolve %s: NetworkPolicy %s lets the Pod send nothing to port 53, so it "+
			"asks no name server.", host, p.Name)
		a.Fixes = append(
			[]Fix{commandFix("let the Pod ask for names",
				fmt.Sprintf("kubectl -n %s patch networkpolicy %s --type=json -p '%s'", in.Ref.Namespace, p.Name,
					allowDNSPatch(p)))}, a.Fixes...)
		return true
	}
	name, full, ok := serviceName(host, in.Ref.Namespace)
	if ok && !unnamed && in.NamespaceContext != nil && (full || in.NamespaceContext.service(name) != nil ||
		nearestService(in, name) != "") {
		return serviceNameFailed(a, in, serviceDependency{hostPort{host: host}, name, full, c})
	}
	switch {
	case unnamed && !answered:
		a.Cause += " It cannot resolve a name: no name server answers it."
		a.Fixes = append(
			textFixes("see whether the cluster's DNS runs, and whether something between it and the Pod drops port 53"),
			a.Fixes...)
	case strings.Contains(host, "$("):
		a.Cause += fmt.Sprintf(" It asks for %s, which is no name but a variable that was not replaced: where it "+
			"stands, the container has no variable of that name, or has it only further below.%s", host,
			whereItStands(c, host))
	case !strings.Contains(host, "."):
		a.Cause += fmt.Sprintf(" It cannot resolve %s, and no Service of namespace %s is called so.", host,
			in.Ref.Namespace)
		if others := in.Objects.ServiceElsewhere(in.Ref.Namespace, host); len(others) > 0 {
			a.Cause += fmt.Sprintf(" Namespace %s has one: a name alone is looked for in the Pod's own.",
				joinList(others))
			a.Fixes = append(textFixes("ask for "+host+"."+others[0]), a.Fixes...)
		}
	case !answered:
		a.Cause += fmt.Sprintf(" It gets no answer about %s, a name outside the cluster's: the name servers that the "+
			"cluster's DNS asks are not reached.", host)
		a.Fixes = append(
			textFixes("name servers that can be reached, with --dns-upstream or upstreamNameservers in the ConfigMap "+
				"kube-system/kube-dns"), a.Fixes...)
	default:
		a.Cause += fmt.Sprintf(" The name servers say that %s does not exist.", host)
		a.Fixes = append(textFixes("correct the name; a Service of another namespace is SERVICE.NAMESPACE"), a.Fixes...)
	}
	return true
}

func nearestService(in In, name string) string {
	var names []string
	for _, s := range in.NamespaceContext.Services {
		names = append(names, s.Name)
	}
	return nearestName(name, names)
}

// serviceNameFailed explains a name in the Pod's own namespace: it is not a Service's, the Service
// has no addresses yet, or the Pod does not use the cluster's DNS.
func serviceNameFailed(a *Answer, in In, q serviceDependency) bool {
	host, name := q.host, q.service
	s := in.NamespaceContext.service(name)
	spec := &in.Pod.Spec
	switch {
	case s == nil:
		a.Cause += fmt.Sprintf(" It cannot resolve %s: there is no Service %s in namespace %s.", host, name,
			in.Ref.Namespace)
		fixes := textFixes("create the Service " + name)
		if near := nearestService(in, name); near != "" {
			a.Cause += fmt.Sprintf(" There is a Service %s: perhaps that was meant.", near)
			fixes = append(
				[]Fix{editedContainer(in, q.container.spec.Name, "ask for "+near,
					func(x *corev1.Container) { replaceHost(x, name, near) })}, fixes...)
		}
		a.Fixes = append(fixes, a.Fixes...)
	case pod.DNSPolicy(spec) == corev1.DNSDefault:
		policy := corev1.DNSClusterFirst
		if spec.HostNetwork {
			policy = corev1.DNSClusterFirstWithHostNet
		}
		a.Cause += fmt.Sprintf(" It cannot resolve %s: the Pod asks the node's own name servers and not the "+
			"cluster's (dnsPolicy %s, hostNetwork %v).", host, spec.DNSPolicy, spec.HostNetwork)
		a.Fixes = append(
			[]Fix{editedPodFix(in, fmt.Sprintf("use dnsPolicy %s", policy),
				func(x *corev1.PodSpec) { x.DNSPolicy = policy })}, a.Fixes...)
	case spec.DNSPolicy == corev1.DNSNone && spec.DNSConfig != nil:
		a.Cause += fmt.Sprintf(" It cannot resolve %s: the Pod asks only %s and not the cluster's name server "+
			"(dnsPolicy None).", host, joinList(spec.DNSConfig.Nameservers))
		a.Fixes = append([]Fix{useClusterDNS(in)}, a.Fixes...)
	case headless(s) && in.NamespaceContext.Ready[name] == 0 && !s.Spec.PublishNotReadyAddresses:
		a.Cause += fmt.Sprintf(" It cannot resolve %s: Service %s is headless, so its name has the addresses of its "+
			"ready Pods, and none is ready.", host, name)
		fixes := []Fix{seeWhy("see why", "Service", in.Ref.Namespace, name),
			commandFix("or have the name lead to Pods that are not ready, as members that find each other before "+
				"want it", fmt.Sprintf(`kubectl -n %s patch service %s -p '{"spec":{"publishNotReadyAddresses":true}}'`,
				in.Ref.Namespace, name))}
		a.Fixes = append(fixes, a.Fixes...)
	default:
		a.Facts = append(a.Facts,
			fmt.Sprintf("Service %s is there now, and its name resolves: it may not have been when the container asked",
				name))
	}
	return true
}

const dnsPort = 53

// policiesBlockingDNS returns a policy that isolates the Pod's egress if no such policy allows UDP
// port 53; nil otherwise.
func policiesBlockingDNS(in In) *networkingv1.NetworkPolicy {
	if in.NamespaceContext == nil || in.Pod.Spec.HostNetwork {
		return nil
	}
	var first *networkingv1.NetworkPolicy
	for _, p := range in.NamespaceContext.Policies {
		if !policyrules.Applies(p, networkingv1.PolicyTypeEgress) ||
			!policyrules.Selects(&p.Spec.PodSelector, in.Pod.Labels) {
			continue
		}
		if first == nil || p.Name < first.Name {
			first = p
		}
		for _, r := range p.Spec.Egress {
			if len(r.Ports) == 0 || slices.ContainsFunc(r.Ports, allowsDNS) {
				return nil // peers are not evaluated
			}
		}
	}
	return first
}

// allowsDNS reports whether a port of a policy may be port 53 over UDP.
func allowsDNS(p networkingv1.NetworkPolicyPort) bool {
	if p.Protocol != nil && *p.Protocol != corev1.ProtocolUDP {
		return false
	}
	if p.Port == nil || p.Port.StrVal != "" {
		return true
	}
	end := p.Port.IntVal
	if p.EndPort != nil {
		end = *p.EndPort
	}
	return p.Port.IntVal <= dnsPort && dnsPort <= end
}

// allowDNSPatch returns the patch of a policy that allows DNS.
func allowDNSPatch(p *networkingv1.NetworkPolicy) string {
	const rule = `{"ports":[{"port":53,"protocol":"UDP"},{"port":53,"protocol":"TCP"}]}`
	if len(p.Spec.Egress) == 0 {
		return `[{"op":"add","path":"/spec/egress","value":[` + rule + `]}]`
	}
	return `[{"op":"add","path":"/spec/egress/-","value":` + rule + `}]`
}
