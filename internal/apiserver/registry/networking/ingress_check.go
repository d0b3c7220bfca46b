package networking

import (
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func checkIngress(i, previous *networkingv1.Ingress) field.ErrorList {
	var f typed.Errors
	s := &i.Spec
	if len(s.Rules) == 0 && s.DefaultBackend == nil {
		f.Invalid(spec(), s.Rules, "either `defaultBackend` or `rules` must be specified")
	}
	if s.DefaultBackend != nil {
		checkBackend(&f, s.DefaultBackend, spec().Child("defaultBackend"))
	}
	for k := range s.Rules {
		r, at := &s.Rules[k], spec().Child("rules").Index(k)
		checkHost(&f, r.Host, at.Child("host"))
		if r.HTTP != nil {
			checkPaths(&f, r.HTTP.Paths, at.Child("http", "paths"))
		}
	}
	for k, t := range s.TLS {
		at := spec().Child("tls").Index(k)
		for n, h := range t.Hosts {
			checkName(&f, h, at.Child("hosts").Index(n))
		}
		if t.SecretName != "" {
			f.DNSSubdomain(at.Child("secretName"), t.SecretName)
		}
	}
	if s.IngressClassName != nil {
		f.DNSSubdomain(spec().Child("ingressClassName"), *s.IngressClassName)
	}
	if old, ok := i.Annotations[ingressClassAnnotation]; ok && previous == nil && s.IngressClassName != nil &&
		old != *s.IngressClassName {
		f.Invalid(field.NewPath("annotations").Child(ingressClassAnnotation), old,
			"must match `ingressClassName` when both are specified")
	}
	return f.List()
}

func isIP(s string) bool { return netutils.ParseIPSloppy(s) != nil }

func checkHost(f *typed.Errors, host string, at *field.Path) {
	if host == "" {
		return
	}
	if isIP(host) {
		f.Invalid(at, host, "must be a DNS name, not an IP address")
	}
	checkName(f, host, at)
}

// checkName wants a DNS name, or one whose first part is a star.
func checkName(f *typed.Errors, name string, at *field.Path) {
	if strings.Contains(name, "*") {
		f.InvalidEach(at, name, validation.IsWildcardDNS1123Subdomain(name))
		return
	}
	f.DNSSubdomain(at, name)
}

func checkPaths(f *typed.Errors, paths []networkingv1.HTTPIngressPath, at *field.Path) {
	if len(paths) == 0 {
		f.Required(at, "")
	}
	for i := range paths {
		checkPath(f, &paths[i], at.Index(i))
	}
}

func checkPath(f *typed.Errors, p *networkingv1.HTTPIngressPath, at *field.Path) {
	if p.PathType == nil {
		f.Required(at.Child("pathType"), "pathType must be specified")
		return
	}
	absolute, child := strings.HasPrefix(p.Path, "/"), at.Child("path")
	switch *p.PathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		if !absolute {
			f.Invalid(child, p.Path, "must be an absolute path")
		}
		for _, bad := range []string{"//", "/./", "/../", "%2f", "%2F"} {
			if strings.Contains(p.Path, bad) {
				f.Invalid(child, p.Path, fmt.Sprintf("must not contain '%s'", bad))
			}
		}
		for _, bad := range []string{"/..", "/."} {
			if strings.HasSuffix(p.Path, bad) {
				f.Invalid(child, p.Path, fmt.Sprintf("cannot end with '%s'", bad))
			}
		}
	case networkingv1.PathTypeImplementationSpecific:
		if p.Path != "" && !absolute {
			f.Invalid(child, p.Path, "must be an absolute path")
		}
	default:
		f.Add(field.NotSupported(at.Child("pathType"), *p.PathType, []networkingv1.PathType{
			networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix,
		}))
	}
	checkBackend(f, &p.Backend, at.Child("backend"))
}

func checkBackend(f *typed.Errors, b *networkingv1.IngressBackend, at *field.Path) {
	switch r, s := b.Resource, b.Service; {
	case r != nil && s != nil:
		f.Invalid(at, "", "cannot set both resource and service backends")
	case r != nil:
		checkReference(f, reference{r.APIGroup, r.Kind, r.Name}, at.Child("resource"))
	case s != nil:
		checkService(f, s, at)
	default:
		f.Invalid(at, "", "resource or service backend is required")
	}
}

func checkService(f *typed.Errors, s *networkingv1.IngressServiceBackend, at *field.Path) {
	child := at.Child("service")
	if s.Name == "" {
		f.Required(child.Child("name"), "")
	} else {
		f.DNSLabel(child.Child("name"), s.Name)
	}
	port := child.Child("port")
	switch name, number := s.Port.Name, s.Port.Number; {
	case name != "" && number != 0:
		f.Invalid(at, "", "cannot set both port name & port number")
	case name != "":
		f.InvalidEach(port.Child("name"), name, validation.IsValidPortName(name))
	case number != 0:
		f.InvalidEach(port.Child("number"), number, validation.IsValidPortNum(int(number)))
	default:
		f.Required(at, "port name or number is required")
	}
}

// reference names an object of any kind.
type reference struct {
	group      *string
	kind, name string
}

func checkReference(f *typed.Errors, r reference, at *field.Path) {
	if r.group != nil {
		f.DNSSubdomain(at.Child("apiGroup"), *r.group)
	}
	if r.kind == "" {
		f.Required(at.Child("kind"), "")
	} else {
		f.InvalidEach(at.Child("kind"), r.kind, content.IsPathSegmentName(r.kind))
	}
	if r.name == "" {
		f.Required(at.Child("name"), "")
	} else {
		f.InvalidEach(at.Child("name"), r.name, content.IsPathSegmentName(r.name))
	}
}

func checkIngressStatus(i, previous *networkingv1.Ingress) field.ErrorList {
	var f typed.Errors
	var stored []string
	for _, p := range previous.Status.LoadBalancer.Ingress {
		stored = append(stored, p.IP)
	}
	for k, p := range i.Status.LoadBalancer.Ingress {
		at := field.NewPath("status", "loadBalancer", "ingress").Index(k)
		if p.IP != "" {
			f.Add(validation.IsValidIPForLegacyField(at.Child("ip"), p.IP, true, stored)...)
		}
		if p.Hostname == "" {
			continue
		}
		f.DNSSubdomain(at.Child("hostname"), p.Hostname)
		if isIP(p.Hostname) {
			f.Invalid(at.Child("hostname"), p.Hostname, "must be a DNS name, not an IP address")
		}
	}
	return f.List()
}
