package endpointslicemirroring

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// addressKey tells addresses apart, as upstream: Pods may share one.
type addressKey struct {
	ip  string
	uid types.UID
}

// portAddresses are the addresses of one port, in the order of the Endpoints.
type portAddresses struct {
	port  *corev1.EndpointPort // nil: of subsets without ports
	order []addressKey
	ready map[addressKey]bool
}

func (p *portAddresses) add(key addressKey, ready bool) {
	was, known := p.ready[key]
	if !known {
		p.order = append(p.order, key)
	}
	p.ready[key] = ready && (was || !known)
}

// signature is the same for ports of the same addresses.
func (p *portAddresses) signature() string {
	var all []string
	for key, ready := range p.ready {
		all = append(all, fmt.Sprint(key.ip, "/", key.uid, "/", ready))
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// repack gives subsets the shape that mirroring goes by: an address is of a port once, not ready if
// any subset says so, and the ports of the same addresses are of one subset.
func repack(subsets []corev1.EndpointSubset) []corev1.EndpointSubset {
	addresses := map[addressKey]corev1.EndpointAddress{}
	var groups []*portAddresses // by port
	at := map[string]*portAddresses{}
	of := func(port *corev1.EndpointPort) *portAddresses {
		name := ""
		if port != nil {
			name = fmt.Sprint(port.Name, "/", port.Protocol, "/", port.Port, "/", ptr.Deref(port.AppProtocol, ""))
		}
		if at[name] == nil {
			at[name] = &portAddresses{port: port, ready: map[addressKey]bool{}}
			groups = append(groups, at[name])
		}
		return at[name]
	}
	add := func(list []corev1.EndpointAddress, ready bool, to *portAddresses) {
		for _, a := range list {
			key := addressKey{ip: a.IP}
			if a.TargetRef != nil {
				key.uid = a.TargetRef.UID
			}
			if _, known := addresses[key]; !known {
				addresses[key] = a
			}
			to.add(key, ready)
		}
	}
	for i := range subsets {
		s := &subsets[i]
		ports := []*corev1.EndpointPort{nil}
		if len(s.Ports) > 0 {
			ports = nil
		}
		for k := range s.Ports {
			ports = append(ports, &s.Ports[k])
		}
		for _, p := range ports {
			to := of(p)
			add(s.Addresses, true, to)
			add(s.NotReadyAddresses, false, to)
		}
	}
	return merge(groups, addresses)
}

// merge makes one subset of the ports of the same addresses.
func merge(groups []*portAddresses, addresses map[addressKey]corev1.EndpointAddress) []corev1.EndpointSubset {
	var out []corev1.EndpointSubset
	at := map[string]int{}
	for _, g := range groups {
		sign := g.signature()
		i, known := at[sign]
		if !known {
			i = len(out)
			at[sign] = i
			var s corev1.EndpointSubset
			for _, key := range g.order {
				if g.ready[key] {
					s.Addresses = append(s.Addresses, addresses[key])
				} else {
					s.NotReadyAddresses = append(s.NotReadyAddresses, addresses[key])
				}
			}
			out = append(out, s)
		}
		if g.port != nil {
			out[i].Ports = append(out[i].Ports, *g.port)
		}
	}
	return out
}
