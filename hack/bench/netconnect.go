package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/hack/bench/result"
	"github.com/gantry-project/gantry/internal/proxy/nftables"
	"github.com/gantry-project/gantry/internal/proxy/nftables/nfnetlink"
	"github.com/gantry-project/gantry/internal/proxy/rules"
)

// The Service that is connected to, and its only endpoint.
var (
	targetService = netip.MustParseAddr("10.222.255.1")
	serverPod     = netip.MustParseAddrPort("10.199.0.2:8080")
)

const (
	conversations = 10_000
	// directPort is not the Service's: the kernel remembers closed connections for two minutes, and
	// one through the Service from a port that was used directly to the same port of the Pod would
	// have to be given another.
	directPort = 8081
)

// connections measures 5,000 TCP connections one after the other between two Pods of a node
// (network namespaces on a bridge), each with one answer of one byte; connect, answer and close
// count. The Pod is asked directly, and through its Service among others. Last, how long it takes
// to delete the conntrack entries of 10,000 UDP conversations with an endpoint that went.
func (b *bench) connections(ctx context.Context) ([]result.Figure, error) {
	s, err := newNamespaces()
	if err != nil {
		return nil, err
	}
	defer s.remove()
	node, server, client, err := bridged(s)
	if err != nil {
		return nil, err
	}
	for _, port := range []uint16{serverPod.Port(), directPort} {
		stop, err := answerConnections(server, port)
		if err != nil {
			return nil, err
		}
		defer stop()
	}
	var figures []result.Figure
	measure := func(what, at string) error {
		took, rate, err := connectTimes(client, at, b.times(5000))
		figures = append(figures, result.Durations(what+"/connection", took),
			result.Value(what+"/connections", "/s", rate))
		return err
	}
	if err := measure("direct", netip.AddrPortFrom(serverPod.Addr(), directPort).String()); err != nil {
		return nil, err
	}
	var table *nftables.Table
	settings := rules.Settings{
		Family: rules.IPv4, MasqueradeBit: 14, LocalDetector: rules.LocalTrafficDetector{Interface: "br0"},
		ConfineInterfaces: []string{"br0"},
	}
	if err := node.Do(func(ns.NetNS) (err error) {
		table, err = nftables.Open(new(nfnetlink.Conn), rules.IPv4, "gantry_proxy_bench", rules.NewTableFrame(settings))
		return err
	}); err != nil {
		return nil, err
	}
	defer table.Close()
	was := rules.NewState()
	for _, n := range []int{10, 1000, 10_000} {
		now := servicesOf(n, settings)
		if err := node.Do(func(ns.NetNS) error {
			if err := table.EnsureFrame(ctx); err != nil {
				return err
			}
			return table.Apply(ctx, rules.Delta(was, now))
		}); err != nil {
			return nil, err
		}
		was = now
		if err := measure(fmt.Sprintf("one of %d Services", n), netip.AddrPortFrom(targetService, 80).String()); err !=
			nil {
			return nil, err
		}
	}
	took, err := b.deleteFlows(node, client)
	name := fmt.Sprintf("delete %d conntrack entries", conversations)
	return append(figures, result.Value(name, "ms", result.Milliseconds(took))), err
}

// bridged creates a node with a bridge and two Pods on it.
func bridged(s *namespaces) (node, server, client ns.NetNS, err error) {
	if node, err = s.add(); err != nil {
		return nil, nil, nil, err
	}
	err = sh(node, `ip link add br0 address 0a:58:0a:c7:00:01 type bridge
		ip addr add 10.199.0.1/24 dev br0; ip link set br0 up
		sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.br0.send_redirects=0
		ip route add default dev br0`)
	pod := func(n int) (ns.NetNS, error) {
		p, err := s.add()
		if err != nil {
			return nil, err
		}
		link := fmt.Sprintf(`ip link add v%[1]d type veth peer name eth0 netns %[2]s
			ip link set v%[1]d master br0 up; ip link set v%[1]d type bridge_slave hairpin on`, n, p.Path())
		if err := sh(node, link); err != nil {
			return nil, err
		}
		return p, sh(p, fmt.Sprintf(`ip link set eth0 up; ip addr add 10.199.0.%d/32 dev eth0
			ip route add 10.199.0.1 dev eth0 scope link; ip route add default via 10.199.0.1`, n))
	}
	if err == nil {
		server, err = pod(2)
	}
	if err == nil {
		client, err = pod(3)
	}
	return node, server, client, err
}

// servicesOf returns the rules of n Services with five endpoints each, the target among them.
func servicesOf(n int, s rules.Settings) rules.State {
	all := rules.NewState()
	add := func(name string, at netip.Addr, ends ...netip.AddrPort) {
		for _, protocol := range []string{"tcp", "udp"} {
			p := rules.ServicePort{
				Service: types.NamespacedName{Namespace: "default", Name: name}, Name: protocol, Protocol: protocol,
				Number:    80,
				Addresses: rules.Addresses{Cluster: at}, AnyEndpoint: true,
			}
			for _, e := range ends {
				p.ClusterEndpoints = append(p.ClusterEndpoints, rules.Endpoint{AddrPort: e})
			}
			all.Add(p.State(s))
			if len(ends) > 1 {
				return // the others have TCP only
			}
		}
	}
	add("target", targetService, serverPod)
	for i := range n {
		var ends []netip.AddrPort
		for k := range 5 {
			ends = append(ends, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(100 + k), byte(i >> 8), byte(i)}),
				8080))
		}
		add(fmt.Sprintf("s%d", i), netip.AddrFrom4([4]byte{10, 222, byte(i >> 8), byte(i)}), ends...)
	}
	return all
}

// answerConnections sends one byte on each connection.
func answerConnections(in ns.NetNS, port uint16) (stop func(), err error) {
	var l net.Listener
	if err := in.Do(func(ns.NetNS) error {
		l, err = net.Listen("tcp4", fmt.Sprintf(":%d", port))
		return err
	}); err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("!")) // the client would miss it
			c.Close()
		}
	}()
	return func() { l.Close() }, nil
}

// connectTimes connects many times.
func connectTimes(from ns.NetNS, at string, many int) (took []time.Duration, rate float64, err error) {
	err = from.Do(func(ns.NetNS) error {
		began := time.Now()
		for range many {
			at0 := time.Now()
			c, err := net.DialTimeout("tcp4", at, 5*time.Second)
			if err != nil {
				return err
			}
			_, err = io.ReadAll(c)
			c.Close()
			if err != nil {
				return err
			}
			took = append(took, time.Since(at0))
		}
		rate = float64(many) / time.Since(began).Seconds()
		return nil
	})
	return took, rate, err
}

// deleteFlows creates UDP flows through the Service and deletes their conntrack entries.
func (b *bench) deleteFlows(node, client ns.NetNS) (time.Duration, error) {
	at := net.UDPAddrFromAddrPort(netip.AddrPortFrom(targetService, 80))
	if err := client.Do(func(ns.NetNS) error {
		for k := range conversations {
			c, err := net.DialUDP("udp4", &net.UDPAddr{Port: 20_000 + k}, at)
			if err != nil {
				return err
			}
			_, err = c.Write([]byte("?"))
			c.Close()
			if err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return 0, err
	}
	gone := rules.NewUDPFlows(
		[]rules.ServicePort{{Protocol: "udp", Number: 80, Addresses: rules.Addresses{Cluster: targetService}}})
	var took time.Duration
	err := node.Do(func(ns.NetNS) error {
		began := time.Now()
		n, err := nftables.CleanStaleEntries(rules.IPv4, gone)
		took = time.Since(began)
		if err == nil && n < conversations*9/10 {
			err = fmt.Errorf("%d of %d conversations were found", n, conversations)
		}
		return err
	})
	return took, err
}
