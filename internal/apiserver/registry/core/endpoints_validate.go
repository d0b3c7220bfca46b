package core

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
)

func validateEndpoints(e, _ *endpointsV1) field.ErrorList {
	var errs field.ErrorList
	for i := range e.Subsets {
		s, path := &e.Subsets[i], field.NewPath("subsets").Index(i)
		if len(s.Addresses) == 0 && len(s.NotReadyAddresses) == 0 {
			errs = append(errs, field.Required(path, "must specify `addresses` or `notReadyAddresses`"))
		}
		for k := range s.Addresses {
			errs = append(errs, endpointAddress(&s.Addresses[k], path.Child("addresses").Index(k))...)
		}
		for k := range s.NotReadyAddresses {
			errs = append(errs, endpointAddress(&s.NotReadyAddresses[k], path.Child("notReadyAddresses").Index(k))...)
		}
		for k := range s.Ports {
			errs = append(errs, endpointPort(&s.Ports[k], len(s.Ports) > 1, path.Child("ports").Index(k))...)
		}
	}
	return errs
}

// each is one error per message.
func each(path *field.Path, value any, messages []string) field.ErrorList {
	var errs field.ErrorList
	for _, m := range messages {
		errs = append(errs, field.Invalid(path, value, m))
	}
	return errs
}

func endpointAddress(a *v1.EndpointAddress, path *field.Path) field.ErrorList {
	errs := validation.IsValidIPForLegacyField(path.Child("ip"), a.IP, true, nil)
	if a.Hostname != "" {
		errs = append(errs, each(path.Child("hostname"), a.Hostname, validation.IsDNS1123Label(a.Hostname))...)
	}
	if a.NodeName != nil {
		errs = append(errs, each(path.Child("nodeName"), *a.NodeName, validation.IsDNS1123Subdomain(*a.NodeName))...)
	}
	return append(errs, podspec.ValidateNonSpecialIP(path.Child("ip"), a.IP)...)
}

func endpointPort(p *v1.EndpointPort, needName bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch {
	case p.Name == "" && needName:
		errs = append(errs, field.Required(path.Child("name"), ""))
	case p.Name != "":
		errs = append(errs, each(path.Child("name"), p.Name, validation.IsDNS1123Label(p.Name))...)
	}
	errs = append(errs, each(path.Child("port"), p.Port, validation.IsValidPortNum(int(p.Port)))...)
	switch p.Protocol {
	case "":
		errs = append(errs, field.Required(path.Child("protocol"), ""))
	case v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP:
	default:
		errs = append(errs, field.NotSupported(path.Child("protocol"), p.Protocol, []string{"SCTP", "TCP", "UDP"}))
	}
	if p.AppProtocol != nil {
		errs = append(errs, each(path.Child("appProtocol"), *p.AppProtocol,
			validation.IsQualifiedName(*p.AppProtocol))...)
	}
	return errs
}
