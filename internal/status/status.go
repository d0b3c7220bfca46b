package status

import (
	"fmt"
	"time"
)

// Health is how a part is.
type Health string

// The healths.
const (
	OK      Health = "ok"
	Down    Health = "down"
	Unknown Health = "unknown"
)

// Kinds of parts, as Kubernetes names the processes.
const (
	APIServer   = "kube-apiserver"
	Etcd        = "etcd"
	Scheduler   = "kube-scheduler"
	Controllers = "kube-controller-manager"
	Kubelet     = "kubelet"
	Runtime     = "container runtime"
	Proxy       = "kube-proxy"
	DNS         = "DNS"
)

// Part is one process, or what does its work.
type Part struct {
	Kind    string        `json:"kind"`
	Node    string        `json:"node,omitempty"` // of the parts that each node has
	Health  Health        `json:"health"`
	Because string        `json:"because"` // what the health is concluded from
	Version string        `json:"version,omitempty"`
	Age     time.Duration `json:"ageNanoseconds,omitempty"` // since its process started; 0: not known
	Load    string        `json:"load,omitempty"`
}

// Name is the kind, and the node where there is one.
func (p Part) Name() string {
	if p.Node == "" {
		return p.Kind
	}
	return p.Kind + " on " + p.Node
}

// Link is who talks to whom, by names of parts.
type Link struct {
	From   string `json:"from"`
	To     string `json:"to"`
	About  string `json:"about"`
	Health Health `json:"health"`
}

// Map is all parts and links.
type Map struct {
	Server string    `json:"server"`
	At     time.Time `json:"at"`
	Parts  []Part    `json:"parts"`
	Links  []Link    `json:"links"`
}

// Draw makes the map.
func Draw(f Facts) Map {
	m := Map{Server: f.Server, At: f.Now, Parts: []Part{apiServer(f), etcd(f), scheduler(f), controllers(f)}}
	if f.Nodes.Err == nil && len(f.Nodes.Items) == 0 {
		for _, kind := range []string{Kubelet, Runtime, Proxy} {
			m.Parts = append(m.Parts, Part{Kind: kind, Health: Unknown, Because: "the cluster has no node"})
		}
	}
	if f.Nodes.Err != nil {
		for _, kind := range []string{Kubelet, Runtime, Proxy} {
			m.Parts = append(m.Parts, Part{Kind: kind, Health: Unknown, Because: "the nodes cannot be read: " +
				f.Nodes.Err.Error()})
		}
	}
	for _, n := range f.Nodes.Items {
		m.Parts = append(m.Parts, kubelet(f, n), containerRuntime(f, n), proxy(n))
	}
	m.Parts = append(m.Parts, dns(f))
	m.Links = links(m.Parts)
	return m
}

// Find returns the part of a name.
func (m Map) Find(name string) (Part, bool) {
	for _, p := range m.Parts {
		if p.Name() == name {
			return p, true
		}
	}
	return Part{}, false
}

// talks is who talks to whom, and about what; a row each.
var talks = []struct{ from, to, about string }{
	{APIServer, Etcd, "objects: reads, writes, watches"},
	{Scheduler, APIServer, "watches Pods and nodes, binds Pods"},
	{Controllers, APIServer, "watch objects, write what follows from them"},
	{Kubelet, APIServer, "watches its Pods, writes their status, renews its lease"},
	{APIServer, Kubelet, "logs, exec, port-forward, metrics"},
	{Kubelet, Runtime, "CRI: sandboxes, containers, images"},
	{Proxy, APIServer, "watches Services and EndpointSlices"},
	{DNS, APIServer, "watches Services and EndpointSlices"},
}

// links joins the parts; those of one node are joined with each other, others with all. A link is
// down when one of its ends is, and ok when both are.
func links(parts []Part) []Link {
	var out []Link
	for _, t := range talks {
		for _, a := range parts {
			for _, b := range parts {
				if a.Kind != t.from || b.Kind != t.to || a.Node != "" && b.Node != "" && a.Node != b.Node {
					continue
				}
				health := Unknown
				switch {
				case a.Health == Down || b.Health == Down:
					health = Down
				case a.Health == OK && b.Health == OK:
					health = OK
				}
				out = append(out, Link{a.Name(), b.Name(), t.about, health})
			}
		}
	}
	return out
}

// age prints a duration with its two largest units.
func age(d time.Duration) string {
	switch {
	case d <= 0:
		return ""
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}
