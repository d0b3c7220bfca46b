package doctor

import (
	"fmt"
	"net/netip"
	"strings"
)

// Resolver is the resolver file that a node's Pods get with dnsPolicy Default.
type Resolver struct {
	Path    string
	Servers []string
	Err     error // it could not be read
}

// names checks the resolver files of nodes.
// https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy
func names(f Facts) []Finding {
	var out []Finding
	for _, n := range f.Nodes {
		if n.Config == nil {
			continue
		}
		if len(n.Config.ClusterDNS) == 0 {
			out = append(out, Finding{
				About: n.Name, Level: Warning,
				Text: "its kubelet has no clusterDNS: Pods find no Service by name, and each that wants to gets an " +
					"event MissingClusterDNS",
				Fix: "set clusterDNS in the kubelet's configuration to the address of the Service " +
					"kube-system/kube-dns; `gantry up` does so unless --dns=false is given",
			})
		} else {
			out = append(out,
				Finding{About: n.Name, Text: "its Pods ask " + strings.Join(n.Config.ClusterDNS, ", ") + " for names"})
		}
		if r := n.Resolver; r != nil && !reachable(r.Servers) {
			what := "names no server that a Pod can reach (" + strings.Join(r.Servers, ", ") + ")"
			switch {
			case r.Err != nil:
				what = fmt.Sprintf("cannot be read (%v)", r.Err)
			case len(r.Servers) == 0:
				what = "names no server"
			}
			out = append(out, Finding{
				About: n.Name, Level: Note,
				Text: "its resolver file " + r.Path + " " + what + ": Pods with dnsPolicy Default find no names",
				Fix: "name another file in the kubelet's resolvConf (of systemd-resolved: " +
					"/run/systemd/resolve/resolv.conf), or give such Pods dnsPolicy ClusterFirst",
			})
		}
	}
	return out
}

// reachable reports whether one of the servers is not a loopback address, which would be the Pod's
// own.
func reachable(servers []string) bool {
	for _, s := range servers {
		if a, err := netip.ParseAddr(s); err == nil && !a.IsLoopback() {
			return true
		}
	}
	return false
}
