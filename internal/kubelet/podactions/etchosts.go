package podactions

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const etcHosts = "/etc/hosts"

// hostsFile writes the Pod's hosts file, which containers may change: it is written anew for each
// start of a container, as upstream does.
func (c *operation) hostsFile() (string, error) {
	path := filepath.Join(c.podDir(), "etc-hosts")
	text, err := c.hostsContent()
	if err != nil {
		return "", fmt.Errorf("hosts file of the Pod: %w", err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return "", fmt.Errorf("hosts file of the Pod: %w", err)
	}
	return path, os.Chmod(path, 0o644)
}

// hostsContent is the content: the node's file on the host's network, else the Pod's own names;
// hostAliases in both.
func (c *operation) hostsContent() (string, error) {
	var b strings.Builder
	if c.pod.Spec.HostNetwork {
		raw, err := os.ReadFile(etcHosts)
		if err != nil {
			return "", err
		}
		b.WriteString("# Kubernetes-managed hosts file (host network).\n")
		b.Write(raw)
	} else {
		b.WriteString("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost " +
			"ip6-loopback\nfe00::0\tip6-localnet\nfe00::0\t" +
			"ip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n")
		host, domain, err := hostnameOf(c.pod)
		if err != nil {
			return "", err
		}
		for _, ip := range c.podIPs() {
			if domain != "" {
				fmt.Fprintf(&b, "%s\t%s.%s.%s.svc.%s\t%s\n", ip, host, domain, c.pod.Namespace,
					c.executor.d.Node.ClusterDomain, host)
				continue
			}
			fmt.Fprintf(&b, "%s\t%s\n", ip, host)
		}
	}
	if len(c.pod.Spec.HostAliases) > 0 {
		b.WriteString("\n# Entries added by HostAliases.\n")
		for _, a := range c.pod.Spec.HostAliases {
			fmt.Fprintf(&b, "%s\t%s\n", a.IP, strings.Join(a.Hostnames, "\t"))
		}
	}
	return b.String(), nil
}
