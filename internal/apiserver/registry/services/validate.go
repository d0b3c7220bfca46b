package services

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
)

const (
	onlyLoadBalancer = "may only be used when `type` is 'LoadBalancer'"
	kubeletPort      = 10250
)

func validateName(name string, prefix bool) []string { return validation.NameIsDNSLabel(name, prefix) }

// Validate validates a Service; old is nil for a create.
func Validate(s, old *v1.Service) field.ErrorList {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	if len(s.Spec.Ports) == 0 && !headless(s) && s.Spec.Type != v1.ServiceTypeExternalName {
		errs = append(errs, field.Required(spec.Child("ports"), ""))
	}
	errs = append(errs, validateType(s)...)
	names := map[string]bool{}
	for i := range s.Spec.Ports {
		errs = append(errs, validatePort(&s.Spec.Ports[i], spec.Child("ports").Index(i), len(s.Spec.Ports) > 1,
			names)...)
	}
	if s.Spec.Selector != nil {
		errs = append(errs, metavalidation.ValidateLabels(s.Spec.Selector, spec.Child("selector"))...)
	}
	errs = append(errs, validateAffinity(&s.Spec, spec)...)
	errs = append(errs, validateClusterIPs(s)...)
	for i, ip := range s.Spec.ExternalIPs {
		p := spec.Child("externalIPs").Index(i)
		if e := validateLegacyIP(p, ip, storedIPs(old)); len(e) > 0 {
			errs = append(errs, e...)
		} else {
			errs = append(errs, podspec.ValidateNonSpecialIP(p, ip)...)
		}
	}
	errs = append(errs, validateKnownType(&s.Spec, spec)...)
	errs = append(errs, validatePortSet(&s.Spec, spec)...)
	errs = append(errs, validateSourceRanges(s)...)
	errs = append(errs, validateLoadBalancer(&s.Spec, spec)...)
	return append(errs, validatePolicies(s)...)
}

func storedIPs(old *v1.Service) []string {
	if old == nil {
		return nil
	}
	return append(slices.Clone(old.Spec.ExternalIPs), old.Spec.ClusterIPs...)
}

func validateLegacyIP(path *field.Path, ip string, old []string) field.ErrorList {
	return utilvalidation.IsValidIPForLegacyField(path, ip, true, old)
}

// validateType validates fields that only some types may or must have.
func validateType(s *v1.Service) field.ErrorList {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	noHeadless := func() {
		if headless(s) {
			errs = append(errs, field.Invalid(spec.Child("clusterIPs").Index(0), s.Spec.ClusterIPs[0],
				fmt.Sprintf("may not be set to 'None' for %s services", s.Spec.Type)))
		}
	}
	switch s.Spec.Type {
	case v1.ServiceTypeLoadBalancer:
		for i := range s.Spec.Ports {
			if p := s.Spec.Ports[i].Port; p == kubeletPort {
				errs = append(errs, field.Invalid(spec.Child("ports").Index(i), p,
					fmt.Sprintf("may not expose port %v externally since it is used by kubelet", kubeletPort)))
			}
		}
		noHeadless()
	case v1.ServiceTypeNodePort:
		noHeadless()
	case v1.ServiceTypeExternalName:
		forbid := func(child string, set bool) {
			if set {
				errs = append(errs, field.Forbidden(spec.Child(child), "may not be set for ExternalName services"))
			}
		}
		forbid("clusterIPs", len(s.Spec.ClusterIPs) > 0)
		forbid("ipFamilies", len(s.Spec.IPFamilies) > 0)
		forbid("ipFamilyPolicy", s.Spec.IPFamilyPolicy != nil)
		name := strings.TrimSuffix(s.Spec.ExternalName, ".")
		if name == "" {
			errs = append(errs, field.Required(spec.Child("externalName"), ""))
			break
		}
		for _, msg := range utilvalidation.IsDNS1123Subdomain(name) {
			errs = append(errs, field.Invalid(spec.Child("externalName"), name, msg))
		}
	}
	return errs
}

func validatePort(p *v1.ServicePort, path *field.Path, needName bool, names map[string]bool) field.ErrorList {
	var errs field.ErrorList
	switch {
	case p.Name == "" && needName:
		errs = append(errs, field.Required(path.Child("name"), ""))
	case p.Name != "":
		for _, msg := range utilvalidation.IsDNS1123Label(p.Name) {
			errs = append(errs, field.Invalid(path.Child("name"), p.Name, msg))
		}
		if names[p.Name] {
			errs = append(errs, field.Duplicate(path.Child("name"), p.Name))
		}
		names[p.Name] = true
	}
	for _, msg := range utilvalidation.IsValidPortNum(int(p.Port)) {
		errs = append(errs, field.Invalid(path.Child("port"), p.Port, msg))
	}
	switch p.Protocol {
	case "":
		errs = append(errs, field.Required(path.Child("protocol"), ""))
	case v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP:
	default:
		errs = append(errs, field.NotSupported(path.Child("protocol"), p.Protocol, []string{"SCTP", "TCP", "UDP"}))
	}
	if p.TargetPort.Type == intstr.Int {
		for _, msg := range utilvalidation.IsValidPortNum(p.TargetPort.IntValue()) {
			errs = append(errs, field.Invalid(path.Child("targetPort"), p.TargetPort.IntValue(), msg))
		}
	} else {
		for _, msg := range utilvalidation.IsValidPortName(p.TargetPort.StrVal) {
			errs = append(errs, field.Invalid(path.Child("targetPort"), p.TargetPort.StrVal, msg))
		}
	}
	if p.AppProtocol != nil {
		for _, msg := range utilvalidation.IsQualifiedName(*p.AppProtocol) {
			errs = append(errs, field.Invalid(path.Child("appProtocol"), *p.AppProtocol, msg))
		}
	}
	return errs
}

func validateAffinity(s *v1.ServiceSpec, path *field.Path) field.ErrorList {
	config := path.Child("sessionAffinityConfig")
	switch s.SessionAffinity {
	case "":
		return field.ErrorList{field.Required(path.Child("sessionAffinity"), "")}
	case v1.ServiceAffinityNone:
		if s.SessionAffinityConfig != nil {
			return field.ErrorList{field.Forbidden(config, fmt.Sprintf("must not be set when session affinity is %s",
				v1.ServiceAffinityNone))}
		}
	case v1.ServiceAffinityClientIP:
		c := s.SessionAffinityConfig
		switch {
		case c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil:
			return field.ErrorList{
				field.Required(config, fmt.Sprintf("when session affinity type is %s", v1.ServiceAffinityClientIP))}
		case *c.ClientIP.TimeoutSeconds <= 0 || *c.ClientIP.TimeoutSeconds > v1.DefaultClientIPServiceAffinitySeconds*8:
			return field.ErrorList{field.Invalid(config.Child("clientIP").Child("timeoutSeconds"),
				*c.ClientIP.TimeoutSeconds, fmt.Sprintf("must be greater than 0 and less than %d",
					v1.DefaultClientIPServiceAffinitySeconds*8))}
		}
	default:
		return field.ErrorList{field.NotSupported(path.Child("sessionAffinity"), s.SessionAffinity,
			[]v1.ServiceAffinity{v1.ServiceAffinityClientIP, v1.ServiceAffinityNone})}
	}
	return nil
}

func validateKnownType(s *v1.ServiceSpec, path *field.Path) field.ErrorList {
	switch s.Type {
	case "":
		return field.ErrorList{field.Required(path.Child("type"), "")}
	case v1.ServiceTypeClusterIP, v1.ServiceTypeNodePort, v1.ServiceTypeLoadBalancer, v1.ServiceTypeExternalName:
		return nil
	}
	return field.ErrorList{field.NotSupported(path.Child("type"), s.Type,
		[]v1.ServiceType{v1.ServiceTypeClusterIP, v1.ServiceTypeExternalName, v1.ServiceTypeLoadBalancer,
			v1.ServiceTypeNodePort})}
}

// validatePortSet validates the ports together: no node ports for the wrong type, no duplicates.
func validatePortSet(s *v1.ServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	type pair struct {
		protocol v1.Protocol
		port     int32
	}
	nodePorts, ports := map[pair]bool{}, map[pair]bool{}
	for i := range s.Ports {
		p, at := &s.Ports[i], path.Child("ports").Index(i)
		if s.Type == v1.ServiceTypeClusterIP && p.NodePort != 0 {
			errs = append(errs, field.Forbidden(at.Child("nodePort"), "may not be used when `type` is 'ClusterIP'"))
		}
	}
	for i := range s.Ports {
		p, at := &s.Ports[i], path.Child("ports").Index(i)
		if p.NodePort == 0 {
			continue
		}
		if k := (pair{p.Protocol, p.NodePort}); nodePorts[k] {
			errs = append(errs, field.Duplicate(at.Child("nodePort"), p.NodePort))
		} else {
			nodePorts[k] = true
		}
	}
	for i := range s.Ports {
		p, at := &s.Ports[i], path.Child("ports").Index(i)
		if k := (pair{p.Protocol, p.Port}); ports[k] {
			errs = append(errs, field.Duplicate(at, servicePort{Protocol: p.Protocol, Port: p.Port}))
		} else {
			ports[k] = true
		}
	}
	return errs
}

func validateSourceRanges(s *v1.Service) field.ErrorList {
	ranges, path := s.Spec.LoadBalancerSourceRanges, field.NewPath("spec", "LoadBalancerSourceRanges")
	text, annotated := s.Annotations[v1.AnnotationLoadBalancerSourceRangesKey]
	switch {
	case len(ranges) > 0:
	case annotated:
		path = field.NewPath("metadata", "annotations").Key(v1.AnnotationLoadBalancerSourceRangesKey)
		if text = strings.TrimSpace(text); text != "" {
			ranges = strings.Split(text, ",")
		}
	default:
		return nil
	}
	var errs field.ErrorList
	if s.Spec.Type != v1.ServiceTypeLoadBalancer {
		errs = append(errs, field.Forbidden(path, onlyLoadBalancer))
	}
	for i, r := range ranges {
		at := path
		if len(s.Spec.LoadBalancerSourceRanges) > 0 {
			at = path.Index(i)
		}
		errs = append(errs, utilvalidation.IsValidCIDRForLegacyField(at, strings.TrimSpace(r), true, nil)...)
	}
	return errs
}

func validateLoadBalancer(s *v1.ServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	allocate := path.Child("allocateLoadBalancerNodePorts")
	if s.Type == v1.ServiceTypeLoadBalancer {
		if s.AllocateLoadBalancerNodePorts == nil {
			errs = append(errs, field.Required(allocate, ""))
		}
	} else if s.AllocateLoadBalancerNodePorts != nil {
		errs = append(errs, field.Forbidden(allocate, onlyLoadBalancer))
	}
	return append(errs, validateLoadBalancerClass(s)...)
}

func validateLoadBalancerClass(s *v1.ServiceSpec) (errs field.ErrorList) {
	path := field.NewPath("spec", "loadBalancerClass")
	if s.LoadBalancerClass == nil {
		return nil
	}
	if s.Type != v1.ServiceTypeLoadBalancer {
		return field.ErrorList{field.Forbidden(path, onlyLoadBalancer)}
	}
	for _, msg := range utilvalidation.IsQualifiedName(*s.LoadBalancerClass) {
		errs = append(errs, field.Invalid(path, *s.LoadBalancerClass, msg))
	}
	return errs
}

func validatePolicies(s *v1.Service) field.ErrorList {
	var errs field.ErrorList
	p, path := &s.Spec, field.NewPath("spec")
	etp := path.Child("externalTrafficPolicy")
	switch {
	case !externallyAccessible(s):
		if p.ExternalTrafficPolicy != "" {
			errs = append(errs,
				field.Invalid(etp, p.ExternalTrafficPolicy, "may only be set for externally-accessible services"))
		}
	case p.ExternalTrafficPolicy == "":
		errs = append(errs, field.Required(etp, ""))
	case p.ExternalTrafficPolicy != v1.ServiceExternalTrafficPolicyCluster &&
		p.ExternalTrafficPolicy != v1.ServiceExternalTrafficPolicyLocal:
		errs = append(errs, field.NotSupported(etp, p.ExternalTrafficPolicy, []string{"Cluster", "Local"}))
	}
	hc := path.Child("healthCheckNodePort")
	switch {
	case p.HealthCheckNodePort == 0:
	case !needsHealthPort(s):
		errs = append(errs,
			field.Invalid(hc, p.HealthCheckNodePort,
				"may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
	default:
		for _, msg := range utilvalidation.IsValidPortNum(int(p.HealthCheckNodePort)) {
			errs = append(errs, field.Invalid(hc, p.HealthCheckNodePort, msg))
		}
	}
	itp := path.Child("internalTrafficPolicy")
	switch {
	case p.InternalTrafficPolicy == nil:
		switch p.Type {
		case v1.ServiceTypeClusterIP, v1.ServiceTypeNodePort, v1.ServiceTypeLoadBalancer:
			errs = append(errs, field.Required(itp, ""))
		}
	case *p.InternalTrafficPolicy != v1.ServiceInternalTrafficPolicyCluster &&
		*p.InternalTrafficPolicy != v1.ServiceInternalTrafficPolicyLocal:
		errs = append(errs, field.NotSupported(itp, *p.InternalTrafficPolicy, []string{"Cluster", "Local"}))
	}
	if d := p.TrafficDistribution; d != nil {
		known := []string{v1.ServiceTrafficDistributionPreferClose, v1.ServiceTrafficDistributionPreferSameZone,
			v1.ServiceTrafficDistributionPreferSameNode}
		if !slices.Contains(known, *d) {
			errs = append(errs, field.NotSupported(path.Child("trafficDistribution"), *d, known))
		}
	}
	return errs
}

// servicePort is a port as errors print it: all fields, by their Go names.
type servicePort struct {
	Name        string
	Protocol    v1.Protocol
	AppProtocol *string
	Port        int32
	TargetPort  intstr.IntOrString
	NodePort    int32
}
