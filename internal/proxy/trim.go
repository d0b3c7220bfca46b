package proxy

import (
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// trimmer is an informer transform that makes objects small: it drops fields that nobody here
// reads, shares equal values, and stores an object's remaining strings in one piece of memory. A
// cluster has few nodes and ports but very many endpoints that name them. No small part of the
// decoded object is kept, because that would pin the memory it was decoded into. Safe for
// concurrent use.
type trimmer struct {
	mu                    sync.Mutex
	names                 map[string]*string
	ports                 map[int32]*int32
	trueValue, falseValue bool
}

func newTrimmer() *trimmer {
	return &trimmer{names: map[string]*string{}, ports: map[int32]*int32{}, trueValue: true}
}

// maxInterned bounds the shared names; the map is then emptied, because names of removed nodes
// would pile up.
const maxInterned = 20_000

// transform is the cache.TransformFunc. A Service or EndpointSlice is copied, since others may hold
// the original; a Node only loses its managed fields, in place.
func (b *trimmer) transform(o any) (any, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.names) > maxInterned {
		b.names = map[string]*string{}
	}
	switch o := o.(type) {
	case *v1.Service:
		c := *o
		c.ObjectMeta = b.trimMeta(o.ObjectMeta, "service.kubernetes.io/service-proxy-name")
		c.Spec.Selector, c.Status.Conditions = nil, nil
		c.Spec.IPFamilies, c.Spec.IPFamilyPolicy, c.Spec.AllocateLoadBalancerNodePorts,
			c.Spec.TrafficDistribution = nil, nil, nil, nil
		if len(c.Spec.ClusterIPs) == 1 && c.Spec.ClusterIPs[0] == c.Spec.ClusterIP {
			c.Spec.ClusterIPs = nil
		}
		c.Spec.Ports = slices.Clone(o.Spec.Ports)
		for i := range c.Spec.Ports {
			p := &c.Spec.Ports[i]
			p.Name, p.Protocol, p.AppProtocol = *b.internName(&p.Name),
				v1.Protocol(*b.internName((*string)(&p.Protocol))), nil
		}
		joinStrings(&c.Name, &c.ResourceVersion, &c.Spec.ClusterIP)
		for _, few := range []*string{(*string)(&c.Spec.Type), (*string)(&c.Spec.SessionAffinity),
			(*string)(&c.Spec.ExternalTrafficPolicy)} {
			*few = *b.internName(few)
		}
		c.Spec.InternalTrafficPolicy = (*v1.ServiceInternalTrafficPolicy)(
			b.internName((*string)(c.Spec.InternalTrafficPolicy)))
		return &c, nil
	case *discoveryv1.EndpointSlice:
		c := *o
		c.ObjectMeta = b.trimMeta(o.ObjectMeta, discoveryv1.LabelServiceName)
		if when := o.Annotations[lastChangeTriggerTime]; when != "" {
			c.Annotations = map[string]string{lastChangeTriggerTime: when}
		}
		c.Ports, c.Endpoints = slices.Clone(o.Ports), slices.Clone(o.Endpoints)
		c.AddressType = discoveryv1.AddressType(*b.internName((*string)(&c.AddressType)))
		b.trimSlice(&c)
		return &c, nil
	default:
		if m, err := meta.Accessor(o); err == nil {
			m.SetManagedFields(nil)
		}
	}
	return o, nil
}

// trimMeta keeps the identity, timestamps, and one label.
func (b *trimmer) trimMeta(m metav1.ObjectMeta, label string) metav1.ObjectMeta {
	out := metav1.ObjectMeta{Name: m.Name, Namespace: *b.internName(&m.Namespace), ResourceVersion: m.ResourceVersion,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp}
	if v, ok := m.Labels[label]; ok {
		out.Labels = map[string]string{label: v}
	}
	return out
}

// internHints copies h with shared names of zones and nodes.
func (b *trimmer) internHints(h *discoveryv1.EndpointHints) *discoveryv1.EndpointHints {
	h = h.DeepCopy()
	if h == nil {
		return nil
	}
	for i := range h.ForZones {
		h.ForZones[i].Name = *b.internName(&h.ForZones[i].Name)
	}
	for i := range h.ForNodes {
		h.ForNodes[i].Name = *b.internName(&h.ForNodes[i].Name)
	}
	return h
}

// internBool returns the shared copy of v.
func (b *trimmer) internBool(v *bool) *bool {
	switch {
	case v == nil:
		return nil
	case *v:
		return &b.trueValue
	}
	return &b.falseValue
}

// trimSlice drops what the proxy does not read of a slice, in place, and has equal values share
// memory.
func (b *trimmer) trimSlice(s *discoveryv1.EndpointSlice) {
	for i := range s.Ports {
		p := &s.Ports[i]
		p.Name, p.AppProtocol = b.internName(p.Name), nil
		p.Protocol = (*v1.Protocol)(b.internName((*string)(p.Protocol)))
		if p.Port != nil {
			if b.ports[*p.Port] == nil {
				b.ports[*p.Port] = new(*p.Port)
			}
			p.Port = b.ports[*p.Port]
		}
	}
	service := s.Labels[discoveryv1.LabelServiceName]
	texts := []*string{&s.Name, &s.ResourceVersion, &service}
	refs, addresses := make([]v1.ObjectReference, len(s.Endpoints)), make([]string, 0, len(s.Endpoints))
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		e.NodeName, e.Hostname, e.Zone, e.DeprecatedTopology = b.internName(e.NodeName), nil, nil, nil
		e.Conditions = discoveryv1.EndpointConditions{Ready: b.internBool(e.Conditions.Ready),
			Serving: b.internBool(e.Conditions.Serving), Terminating: b.internBool(e.Conditions.Terminating)}
		e.Hints = b.internHints(e.Hints)
		if len(e.Addresses) > 0 { // further addresses, if any, belong to the same endpoint
			addresses = append(addresses, e.Addresses[0])
			e.Addresses = addresses[len(addresses)-1:]
			texts = append(texts, &e.Addresses[0])
		}
		if r := e.TargetRef; r != nil {
			refs[i] = v1.ObjectReference{Kind: *b.internName(&r.Kind), Namespace: s.Namespace, Name: r.Name, UID: r.UID}
			e.TargetRef = &refs[i]
			texts = append(texts, &refs[i].Name, (*string)(&refs[i].UID))
		}
		e.Addresses = slices.Clip(e.Addresses)
	}
	joinStrings(texts...)
	if service != "" {
		s.Labels[discoveryv1.LabelServiceName] = service
	}
}

// joinStrings moves all texts into one newly allocated string.
func joinStrings(texts ...*string) {
	var b strings.Builder
	n := 0
	for _, t := range texts {
		n += len(*t)
	}
	b.Grow(n)
	for _, t := range texts {
		b.WriteString(*t)
	}
	all := b.String()
	for _, t := range texts {
		*t, all = all[:len(*t)], all[len(*t):]
	}
}

// internName returns the shared copy of s.
func (b *trimmer) internName(s *string) *string {
	if s == nil {
		return nil
	}
	if b.names[*s] == nil {
		own := strings.Clone(*s)
		b.names[own] = &own
	}
	return b.names[*s]
}
