package config

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeproxy "k8s.io/kube-proxy/config/v1alpha1"
)

// Sysctl is a setting of the kernel's connection tracking.
type Sysctl struct {
	Path       string // its file, from the root directory
	Value      int
	Minimum    bool   // a higher value is left as it is
	Field      string // what of the configuration asks for it
	Configured bool   // the configuration says it; else it is upstream's default
}

// Where the settings are: those of the network namespace, and the size of the table that all share.
const (
	netfilter = "proc/sys/net/netfilter/nf_conntrack_"
	hashsize  = "sys/module/nf_conntrack/parameters/hashsize"
)

// Upstream's defaults. maxConntrackValue is the most that maxPerCore comes to, however many cores
// there are.
const (
	defaultMaxPerCore   = 32 * 1024
	defaultMinConntrack = 128 * 1024
	defaultEstablished  = 24 * time.Hour
	defaultCloseWait    = time.Hour
	maxConntrackValue   = 1 << 20
)

// Conntrack is what the configuration asks of connection tracking on a machine with so many cores,
// in the order in which it is to be set. What is 0 is left as it is.
func (l *Loaded) Conntrack(cores int) []Sysctl {
	c := &l.KubeProxyConfiguration.Conntrack
	var out []Sysctl
	if m := maxConntrack(c, cores); m > 0 {
		given := c.MaxPerCore != nil || c.Min != nil
		out = append(out, Sysctl{netfilter + "max", m, true, "conntrack.maxPerCore", given},
			Sysctl{hashsize, m / 4, true, "conntrack.maxPerCore", given})
	}
	seconds := func(name, field string, d *metav1.Duration, usual time.Duration) {
		s := Sysctl{Path: netfilter + name, Value: int(usual / time.Second), Field: "conntrack." + field}
		if d != nil {
			s.Value, s.Configured = int(d.Duration/time.Second), true
		}
		if s.Value > 0 {
			out = append(out, s)
		}
	}
	seconds("tcp_timeout_established", "tcpEstablishedTimeout", c.TCPEstablishedTimeout, defaultEstablished)
	seconds("tcp_timeout_close_wait", "tcpCloseWaitTimeout", c.TCPCloseWaitTimeout, defaultCloseWait)
	if c.TCPBeLiberal {
		out = append(out, Sysctl{Path: netfilter + "tcp_be_liberal", Value: 1, Field: "conntrack.tcpBeLiberal",
			Configured: true})
	}
	seconds("udp_timeout", "udpTimeout", &c.UDPTimeout, 0)
	seconds("udp_timeout_stream", "udpStreamTimeout", &c.UDPStreamTimeout, 0)
	return out
}

// maxConntrack is how many connections are to be tracked at least; 0 leaves that as it is.
func maxConntrack(c *kubeproxy.KubeProxyConntrackConfiguration, cores int) int {
	each, floor := defaultMaxPerCore, defaultMinConntrack
	if c.MaxPerCore != nil {
		each = int(*c.MaxPerCore)
	}
	if c.Min != nil {
		floor = int(*c.Min)
	}
	switch all := each * cores; {
	case each == 0:
		return 0
	case all > maxConntrackValue:
		return maxConntrackValue
	default:
		return max(all, floor)
	}
}

// conntrackErrors names the fields whose values cannot be.
func conntrackErrors(c *kubeproxy.KubeProxyConntrackConfiguration, bad func(field, format string, args ...any)) {
	for field, n := range map[string]*int32{"conntrack.maxPerCore": c.MaxPerCore, "conntrack.min": c.Min} {
		if n != nil && *n < 0 {
			bad(field, "%d must be 0 or more", *n)
		}
	}
	for field, d := range map[string]*metav1.Duration{
		"conntrack.tcpEstablishedTimeout": c.TCPEstablishedTimeout,
		"conntrack.tcpCloseWaitTimeout":   c.TCPCloseWaitTimeout,
		"conntrack.udpTimeout":            &c.UDPTimeout, "conntrack.udpStreamTimeout": &c.UDPStreamTimeout,
	} {
		if d != nil && d.Duration < 0 {
			bad(field, "%s must be 0 or more", d.Duration)
		}
	}
}
