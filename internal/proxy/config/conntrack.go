package config

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeproxy "k8s.io/kube-proxy/config/v1alpha1"
)

// Sysctl is one connection-tracking setting of the kernel.
type Sysctl struct {
	Path       string // relative to the root directory
	Value      int
	Minimum    bool   // leave a higher current value as it is
	Field      string // the configuration field that asks for it, for messages
	Configured bool   // set in the configuration; false: upstream's default
}

// Paths of the settings. Those of nf_conntrack_ belong to the network namespace; the hash table's
// size is shared by all namespaces.
const (
	netfilter = "proc/sys/net/netfilter/nf_conntrack_"
	hashsize  = "sys/module/nf_conntrack/parameters/hashsize"
)

// Upstream's defaults. maxConntrackValue bounds maxPerCore times the number of cores.
const (
	defaultMaxPerCore   = 32 * 1024
	defaultMinConntrack = 128 * 1024
	defaultEstablished  = 24 * time.Hour
	defaultCloseWait    = time.Hour
	maxConntrackValue   = 1 << 20
)

// Conntrack returns the connection-tracking settings for a machine with the given number of cores,
// in the order in which they must be written. Fields that are 0 leave the kernel's value and yield
// no Sysctl.
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

// maxConntrack returns the wanted nf_conntrack_max; 0 leaves the kernel's value as it is.
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

// conntrackErrors reports negative values to bad, by field.
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
