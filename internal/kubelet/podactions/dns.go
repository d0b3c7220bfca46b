package podactions

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// The resolver's bounds.
// https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#dns-search-domain-list-limits
const (
	maxServers    = 3
	maxSearches   = 32
	maxSearchPath = 253
	maxSearchLine = 2048
	maxHostname   = 63
	maxFQDN       = 64
)

// dns is the Pod's resolver configuration by its dnsPolicy and dnsConfig (upstream: the dns
// Configurer's GetPodDNS); warn gets what had to be left out.
func (c *operation) dns(warn func(reason, message string)) (*runtimeapi.DNSConfig, error) {
	host, err := readResolvConf(c.executor.d.Node.ResolvConf)
	if err != nil {
		return nil, err
	}
	n, out := c.executor.d.Node, &runtimeapi.DNSConfig{}
	policy := pod.DNSPolicy(&c.pod.Spec)
	if cluster := policy == v1.DNSClusterFirst || policy == v1.DNSClusterFirstWithHostNet; cluster &&
		len(n.ClusterDNS) == 0 {
		warn("MissingClusterDNS", fmt.Sprintf(
			"pod: %q. kubelet does not have ClusterDNS IP configured and cannot create Pod using %q policy. Falling "+
				"back to %q policy.",
			c.pod.Name+"_"+c.pod.Namespace+"("+string(c.pod.UID)+")", c.pod.Spec.DNSPolicy, v1.DNSDefault))
		policy = v1.DNSDefault
	}
	switch policy {
	case v1.DNSNone:
	case v1.DNSDefault:
		out = host
		if n.ResolvConf == "" {
			out = c.emptyDNSConfig()
		}
	default:
		out.Servers = slices.Clone(n.ClusterDNS)
		if d := n.ClusterDomain; d != "" {
			out.Searches = []string{c.pod.Namespace + ".svc." + d, "svc." + d, d}
		}
		out.Searches = appendNew(out.Searches, host.Searches)
		out.Options = []string{"ndots:5"}
	}
	if own := c.pod.Spec.DNSConfig; own != nil {
		out.Servers = appendNew(out.Servers, own.Nameservers)
		out.Searches = appendNew(out.Searches, own.Searches)
		out.Options = mergeOptions(out.Options, own.Options)
	}
	if len(out.Servers) > maxServers {
		out.Servers = out.Servers[:maxServers]
		warn("DNSConfigForming",
			"Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: "+
				strings.Join(out.Servers, " "))
	}
	if fit := fitSearchPaths(out.Searches); len(fit) < len(out.Searches) {
		out.Searches = fit
		warn("DNSConfigForming",
			"Search Line limits were exceeded, some search paths have been omitted, the applied search line is: "+
				strings.Join(out.Searches, " "))
	}
	return out, nil
}

// fitSearchPaths are the first search paths that a resolver takes: glibc gives up on a line of
// more, and on any path longer than a name can be.
func fitSearchPaths(paths []string) []string {
	out := slices.DeleteFunc(slices.Clone(paths[:min(len(paths), maxSearches)]),
		func(s string) bool { return len(s) > maxSearchPath })
	for len(strings.Join(out, " ")) > maxSearchLine {
		out = out[:len(out)-1]
	}
	return out
}

// emptyDNSConfig is the configuration on a node without a resolver file: the runtime's own choice
// is overridden, and lookups end at the Pod's loopback.
func (c *operation) emptyDNSConfig() *runtimeapi.DNSConfig {
	out := &runtimeapi.DNSConfig{Searches: []string{"."}}
	for _, ip := range c.executor.d.Node.HostIPs() {
		server := "127.0.0.1"
		if strings.Contains(ip, ":") {
			server = "::1"
		}
		out.Servers = appendNew(out.Servers, []string{server})
	}
	if len(out.Servers) == 0 {
		out.Servers = []string{"127.0.0.1"}
	}
	return out
}

func appendNew(list, more []string) []string {
	for _, s := range more {
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// mergeOptions lets the Pod's own options replace those of the same name.
func mergeOptions(list []string, own []v1.PodDNSConfigOption) []string {
	for _, o := range own {
		s := o.Name
		if o.Value != nil && *o.Value != "" {
			s += ":" + *o.Value
		}
		list = slices.DeleteFunc(slices.Clone(list), func(have string) bool {
			name, _, _ := strings.Cut(have, ":")
			return name == o.Name
		})
		list = append(list, s)
	}
	return list
}

// readResolvConf reads the host's resolver configuration; no path means none.
func readResolvConf(path string) (*runtimeapi.DNSConfig, error) {
	if path == "" {
		return &runtimeapi.DNSConfig{}, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return &runtimeapi.DNSConfig{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("resolver configuration of the node (resolvConf): %w", err)
	}
	defer f.Close()
	return parseResolvConf(f)
}

func parseResolvConf(r io.Reader) (*runtimeapi.DNSConfig, error) {
	out := &runtimeapi.DNSConfig{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || strings.HasPrefix(fields[0], "#") || strings.HasPrefix(fields[0], ";") {
			continue
		}
		switch fields[0] {
		case "nameserver":
			out.Servers = append(out.Servers, fields[1])
		case "search":
			out.Searches = nil
			for _, s := range fields[1:] {
				if s != "." {
					s = strings.TrimSuffix(s, ".")
				}
				out.Searches = append(out.Searches, s)
			}
		case "options":
			out.Options = appendNew(out.Options, fields[1:])
		}
	}
	return out, lines.Err()
}

// hostnameOf is the Pod's host name and its domain, from spec.hostnameOverride, spec.hostname,
// spec.subdomain and the name.
func hostnameOf(pod *v1.Pod) (host, domain string, err error) {
	if o := pod.Spec.HostnameOverride; o != nil {
		return *o, "", nil
	}
	host = pod.Spec.Hostname
	if host == "" {
		host = pod.Name
	}
	if len(host) > maxHostname {
		host = strings.TrimRight(host[:maxHostname], "-.")
	}
	if host == "" {
		return "", "", fmt.Errorf("hostname of Pod %s is empty after truncation", pod.Name)
	}
	return host, pod.Spec.Subdomain, nil
}

// fullHostname is what the containers' kernel calls the Pod: the fully qualified name if the Pod
// asks for it.
func (c *operation) fullHostname(host, domain string) (string, error) {
	if f := c.pod.Spec.SetHostnameAsFQDN; f == nil || !*f || domain == "" {
		return host, nil
	}
	name := fmt.Sprintf("%s.%s.%s.svc.%s", host, domain, c.pod.Namespace, c.executor.d.Node.ClusterDomain)
	if len(name) > maxFQDN {
		return "", fmt.Errorf("failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long "+
			"(%d characters is the max, %d characters requested)", name, maxFQDN, len(name))
	}
	return name, nil
}
