package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"os"
	"sort"
)

// leaf is one certificate to issue: file name without extension, signer, content.
type leaf struct {
	name       string
	frontProxy bool // signed by the front-proxy CA
	subject    pkix.Name
	usage      x509.ExtKeyUsage
	dns        []string
	ips        []net.IP
}

// NetworkUser is the user of network agents on joined nodes; the ClusterRole gantry:network has
// their rights.
const NetworkUser = "gantry-network"

// LocalStorageUser is the user of drivers of local volumes; the ClusterRole gantry:local-storage
// has their rights.
const LocalStorageUser = "gantry-local-storage"

func client(name, user string, groups ...string) leaf {
	return leaf{name: name, subject: pkix.Name{CommonName: user, Organization: groups},
		usage: x509.ExtKeyUsageClientAuth}
}

// leafCertificates returns all certificates below the two authorities. Names of files and subjects
// are kubeadm's.
func leafCertificates(o Options) []leaf {
	node := "system:node:" + o.NodeName
	dns, ips := o.apiServerNames()
	nodeDNS, nodeIPs := o.nodeNames()
	return []leaf{
		{name: "apiserver", subject: pkix.Name{CommonName: "kube-apiserver"}, usage: x509.ExtKeyUsageServerAuth,
			dns: dns, ips: ips},
		client("apiserver-kubelet-client", "kube-apiserver-kubelet-client"),
		client("admin", "kubernetes-admin", "system:masters"),
		client("scheduler", "system:kube-scheduler"),
		client("controller-manager", "system:kube-controller-manager"),
		client("network", NetworkUser),
		client("local-storage", LocalStorageUser),
		client("proxy", "system:kube-proxy"),
		client("kubelet-client", node, "system:nodes"),
		{
			name: "kubelet", subject: pkix.Name{CommonName: node, Organization: []string{"system:nodes"}},
			usage: x509.ExtKeyUsageServerAuth, dns: nodeDNS, ips: nodeIPs,
		},
		{name: "front-proxy-client", frontProxy: true, subject: pkix.Name{CommonName: "front-proxy-client"},
			usage: x509.ExtKeyUsageClientAuth},
	}
}

// apiServerNames returns the names and addresses at which clients reach the API server.
func (o Options) apiServerNames() ([]string, []net.IP) {
	domain := o.ClusterDomain
	names := []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc." + domain, o.NodeName}
	return o.splitNames(append(names, "127.0.0.1", "::1", o.BindAddress, o.ServiceIP))
}

// nodeNames returns the names and addresses at which the API server reaches the kubelet.
func (o Options) nodeNames() ([]string, []net.IP) {
	names := []string{o.NodeName, "localhost", "127.0.0.1", "::1", o.BindAddress}
	if host, err := os.Hostname(); err == nil {
		names = append(names, host)
	}
	return o.splitNames(names)
}

// splitNames adds the extra names, separates addresses and drops empty, unspecified and duplicate
// ones.
func (o Options) splitNames(names []string) (dns []string, ips []net.IP) {
	seen := map[string]bool{"": true}
	for _, n := range append(names, o.ExtraNames...) {
		ip := net.ParseIP(n)
		if ip != nil {
			n = ip.String()
		}
		switch {
		case seen[n]:
		case ip == nil:
			dns = append(dns, n)
		case !ip.IsUnspecified():
			ips = append(ips, ip)
		}
		seen[n] = true
	}
	sort.Strings(dns)
	sort.Slice(ips, func(i, j int) bool { return ips[i].String() < ips[j].String() })
	return dns, ips
}
