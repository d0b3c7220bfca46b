package packet

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Request is the packet to trace.
type Request struct {
	From     Peer
	To       Peer
	Port     string // number or name of the destination port
	Protocol string // TCP, UDP, SCTP
}

// Peer is one end: a Pod, a Service, a node, an address, or a name to be resolved. The zero value
// is any Pod of the cluster.
type Peer struct {
	Kind      string // pod, service, node, address, name; empty: any Pod
	Namespace string // of a Pod or Service
	Name      string
	Addr      netip.Addr
}

// String returns the peer as ReadFrom and ReadTo accept it.
func (p Peer) String() string {
	switch p.Kind {
	case "":
		return "any Pod"
	case "address":
		return p.Addr.String()
	case "name":
		return p.Name
	case "node":
		return "node/" + p.Name
	}
	return fmt.Sprintf("%s/%s in %s", p.Kind, p.Name, p.Namespace)
}

var kinds = map[string]string{"pod": "pod", "pods": "pod", "po": "pod", "service": "service", "services": "service",
	"svc": "service", "node": "node", "nodes": "node", "no": "node"}

// ReadFrom parses pod/NAME, pod/NAMESPACE/NAME, node/NAME or an address.
func ReadFrom(text, namespace string) (Peer, error) {
	p, err := readPeer(text, namespace)
	switch {
	case err != nil:
		return p, fmt.Errorf("--from %q: %w", text, err)
	case p.Kind == "name":
		return p, fmt.Errorf("--from %q: write pod/NAME, pod/NAMESPACE/NAME, node/NAME or the address of somebody "+
			"outside", text)
	case p.Kind == "service":
		return p, fmt.Errorf("--from %q: a Service sends nothing; name one of its Pods: pod/NAME", text)
	}
	return p, nil
}

// ReadTo parses a destination and a port: service/NAME:80, pod/NAME:http, 10.0.0.1:80,
// [fd00::1]:80, NAME:80, node/NAME:30080. protocol is TCP, UDP or SCTP in any case; empty: TCP.
func ReadTo(text, namespace, protocol string) (Request, error) {
	a := Request{Protocol: strings.ToUpper(protocol)}
	switch a.Protocol {
	case "":
		a.Protocol = "TCP"
	case "TCP", "UDP", "SCTP":
	default:
		return a, fmt.Errorf("--protocol %q: must be tcp, udp or sctp", protocol)
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil || host == "" || port == "" {
		return a, fmt.Errorf("--to %q: write a place and a port: service/NAME:80, pod/NAME:8080, node/NAME:30080, "+
			"10.0.0.1:80 or a name like db.shop:5432", text)
	}
	a.Port = port
	if n, ok := portNumber(port); !ok && n != "" {
		return a, fmt.Errorf("--to %q: port %s must be 1 to 65535, or a port's name", text, port)
	}
	if a.To, err = readPeer(host, namespace); err != nil {
		return a, fmt.Errorf("--to %q: %w", text, err)
	}
	return a, nil
}

// portNumber checks a numeric port: ok is false if it is out of range, n is empty for names.
func portNumber(port string) (n string, ok bool) {
	v, err := strconv.Atoi(port)
	if err != nil {
		return "", false
	}
	return port, v > 0 && v < 65536
}

func readPeer(text, namespace string) (Peer, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		return Peer{Kind: "address", Addr: ip.Unmap()}, nil
	}
	kind, name, slash := strings.Cut(text, "/")
	if !slash {
		if text == "" {
			return Peer{}, fmt.Errorf("it is empty")
		}
		return Peer{Kind: "name", Name: strings.TrimSuffix(text, ".")}, nil
	}
	known, ok := kinds[strings.ToLower(kind)]
	if !ok {
		return Peer{}, fmt.Errorf("kind %q is not one of pod, service and node", kind)
	}
	p := Peer{Kind: known, Namespace: namespace, Name: name}
	if ns, rest, two := strings.Cut(name, "/"); two && known != "node" {
		p.Namespace, p.Name = ns, rest
	}
	if known == "node" {
		p.Namespace = ""
	}
	if p.Name == "" || strings.Contains(p.Name, "/") || known != "node" && p.Namespace == "" {
		return Peer{}, fmt.Errorf("write %s/NAME", known)
	}
	return p, nil
}
