package discovery

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// What a slice may hold at most.
const (
	maxEndpoints      = 1000
	maxAddresses      = 100
	maxPorts          = 20000
	maxHints          = 8
	maxTopologyLabels = 16
)

func check(s, previous *discoveryv1.EndpointSlice) field.ErrorList {
	var f typed.Errors
	path := field.NewPath("addressType")
	checkPorts(&f, s.Ports)
	changed := previous == nil || !apiequality.Semantic.DeepEqual(s.Endpoints, previous.Endpoints)
	if changed { // endpoints that are stored stay valid
		checkEndpoints(&f, s)
	}
	if s.AddressType == "" {
		f.Required(path, "")
	} else {
		typed.Supported(&f, path, s.AddressType, discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4,
			discoveryv1.AddressTypeIPv6)
	}
	if previous != nil {
		f.ImmutableWithoutValue(path, s.AddressType, previous.AddressType)
	}
	if changed {
		countAddresses(&f, s)
	}
	return f.List()
}

func checkEndpoints(f *typed.Errors, s *discoveryv1.EndpointSlice) {
	path := field.NewPath("endpoints")
	if n := len(s.Endpoints); n > maxEndpoints {
		f.Add(field.TooMany(path, n, maxEndpoints))
		return
	}
	for i := range s.Endpoints {
		checkEndpoint(f, s.AddressType, &s.Endpoints[i], endpointAt{path: path.Index(i)})
	}
}

// countAddresses wants some addresses of each endpoint, and not too many.
func countAddresses(f *typed.Errors, s *discoveryv1.EndpointSlice) {
	for i := range s.Endpoints {
		switch at, n := field.NewPath("endpoints").Index(i).Child("addresses"), len(s.Endpoints[i].Addresses); {
		case n == 0:
			f.Required(at, "")
		case n > maxAddresses:
			f.Add(field.TooMany(at, n, maxAddresses))
		}
	}
}

// endpointAt is where an endpoint stands.
type endpointAt struct {
	path *field.Path
	list *field.Path // of an address: the list it is in
}

func checkEndpoint(f *typed.Errors, t discoveryv1.AddressType, e *discoveryv1.Endpoint, at endpointAt) {
	addresses := at.path.Child("addresses")
	for i, a := range e.Addresses {
		checkAddress(f, t, a, endpointAt{path: addresses.Index(i), list: addresses})
	}
	if e.NodeName != nil {
		f.DNSSubdomain(at.path.Child("nodeName"), *e.NodeName)
	}
	if n := len(e.DeprecatedTopology); n > maxTopologyLabels {
		f.Add(field.TooMany(at.path.Child("deprecatedTopology"), n, maxTopologyLabels))
	}
	f.Add(metavalidation.ValidateLabels(e.DeprecatedTopology, at.path.Child("deprecatedTopology"))...)
	if e.Hostname != nil {
		f.DNSLabel(at.path.Child("hostname"), *e.Hostname)
	}
	if e.Hints == nil {
		return
	}
	var zones, nodes []string
	for _, z := range e.Hints.ForZones {
		zones = append(zones, z.Name)
	}
	for _, n := range e.Hints.ForNodes {
		nodes = append(nodes, n.Name)
	}
	checkHints(f, at.path.Child("hints", "forZones"), zones, validation.IsValidLabelValue)
	checkHints(f, at.path.Child("hints", "forNodes"), nodes, validation.IsDNS1123Subdomain)
}

// checkHints wants a few names, each well formed and once.
func checkHints(f *typed.Errors, path *field.Path, names []string, valid func(string) []string) {
	if n := len(names); n > maxHints {
		f.Add(field.TooMany(path, n, maxHints))
		return
	}
	seen := sets.New[string]()
	for i, name := range names {
		at := path.Index(i).Child("name")
		if seen.Has(name) {
			f.Add(field.Duplicate(at, name))
		}
		seen.Insert(name)
		f.InvalidEach(at, name, valid(name))
	}
}

func checkAddress(f *typed.Errors, t discoveryv1.AddressType, a string, at endpointAt) {
	var bad field.ErrorList
	switch t {
	case discoveryv1.AddressTypeIPv4:
		bad = validation.IsValidIPForLegacyField(at.path, a, true, nil)
	case discoveryv1.AddressTypeIPv6:
		bad = validation.IsValidIP(at.path, a)
	case discoveryv1.AddressTypeFQDN:
		f.Add(validation.IsFullyQualifiedDomainName(at.path, a)...)
		return
	default:
		return
	}
	if len(bad) > 0 {
		f.Add(bad...)
		return
	}
	if netutils.IsIPv6String(a) != (t == discoveryv1.AddressTypeIPv6) {
		f.Invalid(at.list, a, "must be an "+string(t)+" address")
	}
	f.Add(podspec.ValidateNonSpecialIP(at.path, a)...)
}

func checkPorts(f *typed.Errors, ports []discoveryv1.EndpointPort) {
	path, names := field.NewPath("ports"), sets.New[string]()
	if n := len(ports); n > maxPorts {
		f.Add(field.TooMany(path, n, maxPorts))
		return
	}
	for i, p := range ports {
		name, at := typed.Deref(p.Name), path.Index(i)
		if name != "" {
			f.DNSLabel(at.Child("name"), name)
		}
		if names.Has(name) {
			f.Add(field.Duplicate(at.Child("name"), name))
		}
		names.Insert(name)
		if p.Protocol == nil {
			f.Required(at.Child("protocol"), "")
		} else {
			typed.Supported(f, at.Child("protocol"), *p.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP,
				corev1.ProtocolUDP)
		}
		if p.AppProtocol != nil {
			f.QualifiedName(at.Child("appProtocol"), *p.AppProtocol)
		}
	}
}
