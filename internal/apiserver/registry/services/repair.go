package services

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// leakGracePeriod is how long the allocation of a Service that does not exist is kept: the Service
// may be about to be stored. Upstream's period.
const leakGracePeriod = time.Minute

// Finding is an event about a Service or an IPAddress. Reasons and texts are upstream's.
type Finding struct {
	Object       runtime.Object
	Reason, Text string
}

// Repair is what makes the IPAddress objects match the Services.
type Repair struct {
	Create []*networkingv1.IPAddress // of Services' addresses without an IPAddress object
	Delete []networkingv1.IPAddress  // leaked, or of another Service than has the address
	// what was repaired, and what only a user can: two Services with the same address
	Findings []Finding
}

// addFinding appends an event about an object.
func (r *Repair) addFinding(about runtime.Object, reason, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{about, reason, fmt.Sprintf(format, args...)})
}

// RepairIPs compares the cluster IPs of Services with the IPAddress objects. Pure.
func RepairIPs(services []v1.Service, w ServiceCIDRState, now time.Time) Repair {
	var r Repair
	m := ipRepair{Repair: &r, holders: map[string][]string{}, recorded: map[string]string{},
		services: map[string]bool{}, mismatched: map[string]bool{}}
	for i := range services {
		s := &services[i]
		m.services[s.Namespace+"/"+s.Name] = true
		for _, ip := range clusterIPs(s) {
			m.holders[ip] = append(m.holders[ip], s.Namespace+"/"+s.Name)
		}
	}
	for i := range w.IPAddresses {
		m.checkIPAddress(&w.IPAddresses[i], now)
	}
	var ranges []netip.Prefix
	for i := range w.CIDRs {
		ranges = append(ranges, Prefixes(&w.CIDRs[i])...)
	}
	for i := range services {
		m.checkService(&services[i], ranges)
	}
	return r
}

// ipRepair is the state of one RepairIPs.
type ipRepair struct {
	*Repair
	holders    map[string][]string // address to the Services (namespace/name) that have it
	recorded   map[string]string   // address to the Service of its IPAddress, or to otherHolder
	services   map[string]bool     // Services that exist
	mismatched map[string]bool     // addresses whose IPAddress names a Service that does not have them
}

// otherHolder is the owner of an IPAddress that is not a Service's.
const otherHolder = "another"

// checkIPAddress compares one IPAddress object with the Services.
func (m *ipRepair) checkIPAddress(e *networkingv1.IPAddress, now time.Time) {
	p := e.Spec.ParentRef
	if p == nil || p.Group != "" || p.Resource != "services" || e.Labels[LabelManagedBy] != Manager {
		m.recorded[e.Name] = otherHolder
		return
	}
	owner := p.Namespace + "/" + p.Name
	switch {
	case slices.Contains(m.holders[e.Name], owner):
		m.recorded[e.Name] = owner
	case len(m.holders[e.Name]) > 0: // the finding is about the Service that has it
		m.mismatched[e.Name] = true
		m.Delete = append(m.Delete, *e)
	case now.Sub(e.CreationTimestamp.Time) <= leakGracePeriod:
	case m.services[owner]:
		m.Delete = append(m.Delete, *e)
		m.addFinding(e, "IPAddressWrongReference", "IPAddress: %s for Service %s has a wrong reference; cleaning up",
			e.Name, owner)
	default:
		m.Delete = append(m.Delete, *e)
		m.addFinding(e, "IPAddressNotAllocated", "IPAddress: %s for Service %s appears to have leaked: cleaning up",
			e.Name, owner)
	}
}

// checkService compares the addresses of one Service with the IPAddress objects and the ranges.
func (m *ipRepair) checkService(s *v1.Service, ranges []netip.Prefix) {
	me := s.Namespace + "/" + s.Name
	for _, ip := range clusterIPs(s) {
		a, err := netip.ParseAddr(ip)
		family := v1.IPv4Protocol
		if a.Is6() {
			family = v1.IPv6Protocol
		}
		switch within := func(p netip.Prefix) bool { return p.Contains(a) }; {
		case err != nil:
			m.addFinding(s, "ClusterIPNotValid", "Cluster IP %s is not a valid IP; please recreate Service", ip)
		case len(ranges) > 0 && !slices.ContainsFunc(ranges, within):
			m.addFinding(s, "ClusterIPOutOfRange",
				"Cluster IP [%v]: %s is not within any configured Service CIDR; please recreate service", family, ip)
		case m.recorded[ip] == me:
		case m.recorded[ip] == "":
			m.recorded[ip] = me
			m.Create = append(m.Create, NewIPAddress(ip, s.Namespace, s.Name))
			if m.mismatched[ip] {
				m.addFinding(s, "ClusterIPNotAllocated",
					"the ClusterIP [%v]: %s for Service %s has a wrong reference; repairing", family, ip, me)
			} else {
				m.addFinding(s, "ClusterIPNotAllocated", "Cluster IP [%v]: %s is not allocated; repairing", family, ip)
			}
		default:
			m.addFinding(s, "ClusterIPAlreadyAllocated",
				"Cluster IP [%v]:%s was assigned to multiple services; please recreate service", family, ip)
		}
	}
}

// clusterIPs returns the cluster IPs of a Service in canonical form; texts that are none stay as
// they are.
func clusterIPs(s *v1.Service) (out []string) {
	if !needsClusterIP(s) || headless(s) {
		return nil
	}
	for _, ip := range s.Spec.ClusterIPs {
		if a, err := netip.ParseAddr(ip); err == nil {
			ip = a.String()
		}
		out = append(out, ip)
	}
	return out
}

// PortRepair is what makes the stored map of node ports match the Services.
type PortRepair struct {
	Allocate, Release []int
	Leaked            map[int]time.Time // unused ports and since when: the argument of the next call
	Findings          []Finding
}

// RepairNodePorts compares the node ports of Services with the map, which was read after them. An
// unused port is released when it has been unused for leakGracePeriod. Pure.
func RepairNodePorts(services []v1.Service, m *PortMap, leaked map[int]time.Time, now time.Time) PortRepair {
	r := PortRepair{Leaked: map[int]time.Time{}}
	seen := map[int]bool{}
	for i := range services {
		s := &services[i]
		for _, n := range allocatedNodePorts(s) {
			say := func(reason, format string, args ...any) {
				r.Findings = append(r.Findings, Finding{s, reason, fmt.Sprintf(format, args...)})
			}
			switch {
			case !m.within(n):
				say("PortOutOfRange", "Port %d is not within the port range %d-%d; please recreate service", n, m.low,
					m.high)
			case seen[n]:
				say("PortAlreadyAllocated", "Port %d was assigned to multiple services; please recreate service", n)
			case !m.Has(n):
				r.Allocate = append(r.Allocate, n)
				say("PortNotAllocated", "Port %d is not allocated; repairing", n)
			}
			seen[n] = true
		}
	}
	for _, n := range m.All() {
		if seen[n] {
			continue
		}
		since, ok := leaked[n]
		switch {
		case !ok:
			r.Leaked[n] = now
		case now.Sub(since) > leakGracePeriod:
			r.Release = append(r.Release, n)
		default:
			r.Leaked[n] = since
		}
	}
	return r
}
