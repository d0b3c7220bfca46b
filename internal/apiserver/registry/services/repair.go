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

// grace is how long an entry of a Service that is not there is left alone: the Service may be about to be stored. Upstream's figure.
const grace = time.Minute

// Finding is what an event tells about a Service or an entry. Reasons and texts are upstream's.
type Finding struct {
	About        runtime.Object
	Reason, Text string
}

// Repair is what makes the ledger agree with the Services.
type Repair struct {
	Make   []*networkingv1.IPAddress // addresses that Services hold without an entry
	Remove []networkingv1.IPAddress  // entries that belong to nobody, or to another Service than holds the address
	Say    []Finding                 // what was wrong, and what only a person can decide: a Service that holds what another one has
}

func (r *Repair) say(about runtime.Object, reason, format string, args ...any) {
	r.Say = append(r.Say, Finding{about, reason, fmt.Sprintf(format, args...)})
}

// Mend compares Services with entries.
func Mend(services []v1.Service, w World, now time.Time) Repair {
	var r Repair
	m := mending{Repair: &r, holders: map[string][]string{}, written: map[string]string{}, known: map[string]bool{}, wrong: map[string]bool{}}
	for i := range services {
		s := &services[i]
		m.known[s.Namespace+"/"+s.Name] = true
		for _, ip := range held(s) {
			m.holders[ip] = append(m.holders[ip], s.Namespace+"/"+s.Name)
		}
	}
	for i := range w.Entries {
		m.entry(&w.Entries[i], now)
	}
	var ranges []netip.Prefix
	for i := range w.CIDRs {
		ranges = append(ranges, Ranges(&w.CIDRs[i])...)
	}
	for i := range services {
		m.service(&services[i], ranges)
	}
	return r
}

// mending is the work of one Mend.
type mending struct {
	*Repair
	holders map[string][]string // address to the Services (namespace/name) that hold it
	written map[string]string   // address to the Service whose entry it has, or to another
	known   map[string]bool     // Services there are
	wrong   map[string]bool     // addresses whose entry named somebody who does not hold them
}

// another stands for a holder that is no Service.
const another = "another"

func (m *mending) entry(e *networkingv1.IPAddress, now time.Time) {
	p := e.Spec.ParentRef
	if p == nil || p.Group != "" || p.Resource != "services" || e.Labels[LabelManagedBy] != Manager {
		m.written[e.Name] = another
		return
	}
	owner := p.Namespace + "/" + p.Name
	switch {
	case slices.Contains(m.holders[e.Name], owner):
		m.written[e.Name] = owner
	case len(m.holders[e.Name]) > 0: // told about the Service that holds it
		m.wrong[e.Name] = true
		m.Remove = append(m.Remove, *e)
	case now.Sub(e.CreationTimestamp.Time) <= grace:
	case m.known[owner]:
		m.Remove = append(m.Remove, *e)
		m.say(e, "IPAddressWrongReference", "IPAddress: %s for Service %s has a wrong reference; cleaning up", e.Name, owner)
	default:
		m.Remove = append(m.Remove, *e)
		m.say(e, "IPAddressNotAllocated", "IPAddress: %s for Service %s appears to have leaked: cleaning up", e.Name, owner)
	}
}

func (m *mending) service(s *v1.Service, ranges []netip.Prefix) {
	me := s.Namespace + "/" + s.Name
	for _, ip := range held(s) {
		a, err := netip.ParseAddr(ip)
		family := v1.IPv4Protocol
		if a.Is6() {
			family = v1.IPv6Protocol
		}
		switch within := func(p netip.Prefix) bool { return p.Contains(a) }; {
		case err != nil:
			m.say(s, "ClusterIPNotValid", "Cluster IP %s is not a valid IP; please recreate Service", ip)
		case len(ranges) > 0 && !slices.ContainsFunc(ranges, within):
			m.say(s, "ClusterIPOutOfRange", "Cluster IP [%v]: %s is not within any configured Service CIDR; please recreate service", family, ip)
		case m.written[ip] == me:
		case m.written[ip] == "":
			m.written[ip] = me
			m.Make = append(m.Make, Entry(ip, s.Namespace, s.Name))
			if m.wrong[ip] {
				m.say(s, "ClusterIPNotAllocated", "the ClusterIP [%v]: %s for Service %s has a wrong reference; repairing", family, ip, me)
			} else {
				m.say(s, "ClusterIPNotAllocated", "Cluster IP [%v]: %s is not allocated; repairing", family, ip)
			}
		default:
			m.say(s, "ClusterIPAlreadyAllocated", "Cluster IP [%v]:%s was assigned to multiple services; please recreate service", family, ip)
		}
	}
}

// held are the cluster addresses of a Service in their canonical form; what is none stays as it is.
func held(s *v1.Service) (out []string) {
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

// PortRepair is what makes the map of node ports agree with the Services.
type PortRepair struct {
	Take, Give []int
	Lost       map[int]time.Time // ports that nobody holds, and since when that was seen: In of the next round
	Say        []Finding
}

// MendPorts compares Services with the map, which was read after them. A port that nobody holds is given back when that was so for a while.
func MendPorts(services []v1.Service, m *PortMap, lost map[int]time.Time, now time.Time) PortRepair {
	r := PortRepair{Lost: map[int]time.Time{}}
	seen := map[int]bool{}
	for i := range services {
		s := &services[i]
		for _, n := range portsOf(s) {
			say := func(reason, format string, args ...any) {
				r.Say = append(r.Say, Finding{s, reason, fmt.Sprintf(format, args...)})
			}
			switch {
			case !m.within(n):
				say("PortOutOfRange", "Port %d is not within the port range %d-%d; please recreate service", n, m.low, m.high)
			case seen[n]:
				say("PortAlreadyAllocated", "Port %d was assigned to multiple services; please recreate service", n)
			case !m.Has(n):
				r.Take = append(r.Take, n)
				say("PortNotAllocated", "Port %d is not allocated; repairing", n)
			}
			seen[n] = true
		}
	}
	for _, n := range m.All() {
		if seen[n] {
			continue
		}
		since, ok := lost[n]
		switch {
		case !ok:
			r.Lost[n] = now
		case now.Sub(since) > grace:
			r.Give = append(r.Give, n)
		default:
			r.Lost[n] = since
		}
	}
	return r
}
