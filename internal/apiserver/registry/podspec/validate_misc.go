package podspec

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

const (
	maxDNSServers      = 3
	maxDNSSearches     = 32
	maxDNSSearchLength = 2048
	linuxOnly          = "windows options cannot be set for a linux pod"
	notOnWindows       = "cannot be set for a windows pod"
)

func (j *validator) dns(path *field.Path) {
	c := j.spec.DNSConfig
	if j.spec.DNSPolicy == v1.DNSNone {
		if c == nil {
			j.Required(path, fmt.Sprintf("must provide `dnsConfig` when `dnsPolicy` is %s", v1.DNSNone))
			return
		}
		if len(c.Nameservers) == 0 {
			j.Required(path.Child("nameservers"),
				fmt.Sprintf("must provide at least one DNS nameserver when `dnsPolicy` is %s", v1.DNSNone))
			return
		}
	}
	if c == nil {
		return
	}
	if len(c.Nameservers) > maxDNSServers {
		j.Invalid(path.Child("nameservers"), c.Nameservers, fmt.Sprintf("must not have more than %v nameservers",
			maxDNSServers))
	}
	for i, ip := range c.Nameservers {
		j.Add(validation.IsValidIPForLegacyField(path.Child("nameservers").Index(i), ip, true, nil)...)
	}
	if len(c.Searches) > maxDNSSearches {
		j.Invalid(path.Child("searches"), c.Searches, fmt.Sprintf("must not have more than %v search paths",
			maxDNSSearches))
	}
	if len(strings.Join(c.Searches, " ")) > maxDNSSearchLength {
		j.Invalid(path.Child("searches"), c.Searches,
			fmt.Sprintf("must not have more than %v characters (including spaces) in the search list",
				maxDNSSearchLength))
	}
	for i, s := range c.Searches {
		if s != "." {
			s = strings.TrimSuffix(s, ".")
			j.InvalidEach(path.Child("searches").Index(i), s, validation.IsDNS1123SubdomainWithUnderscore(s))
		}
	}
	for i, o := range c.Options {
		if o.Name == "" {
			j.Required(path.Child("options").Index(i), "must not be empty")
		}
	}
}

func (j *validator) hostAliases(path *field.Path) {
	for i, a := range j.spec.HostAliases {
		j.Add(validation.IsValidIPForLegacyField(path.Index(i).Child("ip"), a.IP, true, nil)...)
		for k, name := range a.Hostnames {
			j.DNSSubdomain(path.Index(i).Child("hostnames").Index(k), name)
		}
	}
}

func (j *validator) schedulingGates(spec *field.Path) {
	for i, g := range j.spec.ReadinessGates {
		j.InvalidEach(spec.Child("readinessGates").Index(i).Child("conditionType"), string(g.ConditionType),
			validation.IsQualifiedName(string(g.ConditionType)))
	}
	seen := sets.New[string]()
	for i, g := range j.spec.SchedulingGates {
		at := spec.Child("schedulingGates").Index(i)
		j.InvalidEach(at, g.Name, validation.IsQualifiedName(g.Name))
		if seen.Has(g.Name) {
			j.Add(field.Duplicate(at, g.Name))
		}
		seen.Insert(g.Name)
	}
}

// os validates spec.os and rejects fields that the named system does not have.
func (j *validator) os(spec *field.Path) {
	o := j.spec.OS
	if o == nil {
		return
	}
	switch o.Name {
	case "":
		j.Required(spec.Child("os").Child("name"), "")
	case v1.Linux:
		j.noWindowsOptions(spec)
	case v1.Windows:
		j.noLinuxOptions(spec)
	default:
		j.Add(field.NotSupported(spec.Child("os"), o.Name, []v1.OSName{v1.Linux, v1.Windows}))
	}
}

// visitContainers calls f for init containers, then for containers, with their paths.
func (j *validator) visitContainers(spec *field.Path, f func(*v1.Container, *field.Path)) {
	for i := range j.spec.Containers {
		f(&j.spec.Containers[i], spec.Child("containers").Index(i))
	}
	for i := range j.spec.InitContainers {
		f(&j.spec.InitContainers[i], spec.Child("initContainers").Index(i))
	}
	for i := range j.spec.EphemeralContainers {
		f((*v1.Container)(&j.spec.EphemeralContainers[i].EphemeralContainerCommon),
			spec.Child("ephemeralContainers").Index(i))
	}
}

func (j *validator) noWindowsOptions(spec *field.Path) {
	if s := j.spec.SecurityContext; s != nil && s.WindowsOptions != nil {
		j.Forbidden(spec.Child("securityContext").Child("windowsOptions"), linuxOnly)
	}
	j.visitContainers(spec, func(c *v1.Container, p *field.Path) {
		if c.SecurityContext != nil && c.SecurityContext.WindowsOptions != nil {
			j.Forbidden(p.Child("securityContext").Child("windowsOptions"), linuxOnly)
		}
	})
}

func (j *validator) noLinuxOptions(spec *field.Path) {
	no := func(set bool, p *field.Path) {
		if set {
			j.Forbidden(p, notOnWindows)
		}
	}
	if s := j.spec.SecurityContext; s != nil {
		at := spec.Child("securityContext")
		no(s.AppArmorProfile != nil, at.Child("appArmorProfile"))
		no(s.SELinuxOptions != nil, at.Child("seLinuxOptions"))
		no(j.spec.HostUsers != nil, spec.Child("hostUsers"))
		no(j.spec.HostPID, spec.Child("hostPID"))
		no(j.spec.HostIPC, spec.Child("hostIPC"))
		no(s.SeccompProfile != nil, at.Child("seccompProfile"))
		no(s.FSGroup != nil, at.Child("fsGroup"))
		no(s.FSGroupChangePolicy != nil, at.Child("fsGroupChangePolicy"))
		no(len(s.Sysctls) > 0, at.Child("sysctls"))
		no(j.spec.ShareProcessNamespace != nil, spec.Child("shareProcessNamespace"))
		no(s.RunAsUser != nil, at.Child("runAsUser"))
		no(s.RunAsGroup != nil, at.Child("runAsGroup"))
		no(s.SupplementalGroups != nil, at.Child("supplementalGroups"))
		no(s.SupplementalGroupsPolicy != nil, at.Child("supplementalGroupsPolicy"))
		no(s.SELinuxChangePolicy != nil, at.Child("seLinuxChangePolicy"))
	}
	j.visitContainers(spec, func(c *v1.Container, p *field.Path) {
		s, at := c.SecurityContext, p.Child("securityContext")
		if s == nil {
			return
		}
		no(s.AppArmorProfile != nil, at.Child("appArmorProfile"))
		no(s.SELinuxOptions != nil, at.Child("seLinuxOptions"))
		no(s.SeccompProfile != nil, at.Child("seccompProfile"))
		no(s.Capabilities != nil, at.Child("capabilities"))
		no(s.ReadOnlyRootFilesystem != nil, at.Child("readOnlyRootFilesystem"))
		no(s.Privileged != nil, at.Child("privileged"))
		no(s.AllowPrivilegeEscalation != nil, at.Child("allowPrivilegeEscalation"))
		no(s.ProcMount != nil, at.Child("procMount"))
		no(s.RunAsUser != nil, at.Child("runAsUser"))
		no(s.RunAsGroup != nil, at.Child("runAsGroup"))
	})
}

// ValidateImageWhitespace rejects spaces around an image name. Pods only: existing templates have
// them.
func ValidateImageWhitespace(c *v1.Container, path *field.Path) field.ErrorList {
	if strings.TrimSpace(c.Image) == c.Image {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("image"), c.Image, "must not have leading or trailing whitespace")}
}

// ValidateFinalizers checks that each finalizer is one of Kubernetes' own names or has a domain.
// path is metadata.finalizers.
func ValidateFinalizers(list []string, path *field.Path) field.ErrorList {
	var f typed.Errors
	for i, name := range list {
		switch name {
		case metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents, string(v1.FinalizerKubernetes):
			continue
		}
		if !strings.Contains(name, "/") {
			f.Invalid(path.Index(i), name, "name is neither a standard finalizer name nor is it fully qualified")
		}
	}
	return f.List()
}
