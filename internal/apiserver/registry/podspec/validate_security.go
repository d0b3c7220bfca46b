package podspec

import (
	"fmt"
	"regexp"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

const (
	sysctlPattern   = `^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`
	maxSysctlLength = 253
)

var sysctlName = regexp.MustCompile(sysctlPattern)

// security validates a container's securityContext.
func (j *validator) security(s *v1.SecurityContext, path *field.Path) {
	if s == nil {
		return
	}
	if s.RunAsUser != nil {
		j.InvalidEach(path.Child("runAsUser"), *s.RunAsUser, validation.IsValidUserID(*s.RunAsUser))
	}
	if s.RunAsGroup != nil {
		j.InvalidEach(path.Child("runAsGroup"), *s.RunAsGroup, validation.IsValidGroupID(*s.RunAsGroup))
	}
	if p := s.ProcMount; p != nil {
		typed.Supported(&j.Errors, path.Child("procMount"), *p, v1.DefaultProcMount, v1.UnmaskedProcMount)
		if *p == v1.UnmaskedProcMount && (j.spec.HostUsers == nil || *j.spec.HostUsers) {
			j.Invalid(path.Child("procMount"), *p, "`hostUsers` must be false to use `Unmasked`")
		}
	}
	j.seccomp(s.SeccompProfile, path.Child("seccompProfile"))
	if s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation {
		if s.Privileged != nil && *s.Privileged {
			j.Invalid(path, typed.GoFields(s),
				"cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
		}
		if s.Capabilities != nil {
			for _, c := range s.Capabilities.Add {
				if c == "CAP_SYS_ADMIN" {
					j.Invalid(path, typed.GoFields(s),
						"cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
				}
			}
		}
	}
	j.windows(s.WindowsOptions, path.Child("windowsOptions"))
	j.appArmor(s.AppArmorProfile, path.Child("appArmorProfile"))
}

// shareProcessNamespace validates spec.shareProcessNamespace.
func (j *validator) shareProcessNamespace(path *field.Path) {
	if share := j.spec.ShareProcessNamespace; j.spec.HostPID && share != nil && *share {
		j.Invalid(path, *share, "ShareProcessNamespace and HostPID cannot both be enabled")
	}
}

// podSecurity validates the Pod's securityContext. spec is the path of the spec.
func (j *validator) podSecurity(spec *field.Path) {
	s, path := j.spec.SecurityContext, spec.Child("securityContext")
	if s == nil {
		return
	}
	if s.FSGroup != nil {
		j.InvalidEach(path.Child("fsGroup"), *s.FSGroup, validation.IsValidGroupID(*s.FSGroup))
	}
	if s.RunAsUser != nil {
		j.InvalidEach(path.Child("runAsUser"), *s.RunAsUser, validation.IsValidUserID(*s.RunAsUser))
	}
	if s.RunAsGroup != nil {
		j.InvalidEach(path.Child("runAsGroup"), *s.RunAsGroup, validation.IsValidGroupID(*s.RunAsGroup))
	}
	for i, g := range s.SupplementalGroups {
		j.InvalidEach(path.Child("supplementalGroups").Index(i), g, validation.IsValidGroupID(g))
	}
	j.sysctls(s.Sysctls, path.Child("sysctls"))
	if p := s.FSGroupChangePolicy; p != nil {
		typed.Supported(&j.Errors, path.Child("fsGroupChangePolicy"), *p, v1.FSGroupChangeAlways,
			v1.FSGroupChangeOnRootMismatch)
	}
	j.seccomp(s.SeccompProfile, path.Child("seccompProfile"))
	j.windows(s.WindowsOptions, path.Child("windowsOptions"))
	j.appArmor(s.AppArmorProfile, path.Child("appArmorProfile"))
	if p := s.SupplementalGroupsPolicy; p != nil {
		typed.Supported(&j.Errors, path.Child("supplementalGroupsPolicy"), *p, v1.SupplementalGroupsPolicyMerge,
			v1.SupplementalGroupsPolicyStrict)
	}
	if p := s.SELinuxChangePolicy; p != nil {
		typed.Supported(&j.Errors, path.Child("seLinuxChangePolicy"), *p, v1.SELinuxChangePolicyMountOption,
			v1.SELinuxChangePolicyRecursive)
	}
}

func (j *validator) sysctls(list []v1.Sysctl, path *field.Path) {
	seen := sets.New[string]()
	for i, s := range list {
		at := path.Index(i).Child("name")
		dotted := strings.ReplaceAll(s.Name, "/", ".")
		switch {
		case s.Name == "":
			j.Required(at, "")
		case len(s.Name) > maxSysctlLength || !sysctlName.MatchString(s.Name):
			j.Invalid(at, s.Name, fmt.Sprintf("must have at most %d characters and match regex %s", maxSysctlLength,
				sysctlPattern))
		case seen.Has(s.Name):
			j.Add(field.Duplicate(at, s.Name))
		}
		seen.Insert(s.Name)
		for _, ns := range []struct {
			shared bool
			field  string
			names  []string
		}{
			{j.spec.HostIPC, "hostIPC", []string{"kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."}},
			{j.spec.HostNetwork, "hostNetwork", []string{"net."}},
		} {
			for _, prefix := range ns.names {
				if ns.shared && strings.HasPrefix(dotted, prefix) {
					j.Invalid(at, s.Name, fmt.Sprintf("may not be specified when '%s' is true", ns.field))
				}
			}
		}
	}
}

func (j *validator) seccomp(p *v1.SeccompProfile, path *field.Path) {
	if p == nil {
		return
	}
	if p.Type == "" {
		j.Required(path.Child("type"), "type is required when seccompProfile is set")
	} else {
		typed.Supported(&j.Errors, path.Child("type"), p.Type, v1.SeccompProfileTypeLocalhost,
			v1.SeccompProfileTypeRuntimeDefault, v1.SeccompProfileTypeUnconfined)
	}
	at := path.Child("localhostProfile")
	switch {
	case p.Type != v1.SeccompProfileTypeLocalhost:
		if p.LocalhostProfile != nil {
			j.Invalid(at, typed.GoFields(p), "can only be set when seccomp type is Localhost")
		}
	case p.LocalhostProfile == nil:
		j.Required(at, "must be set when seccomp type is Localhost")
	default:
		j.localDescendingPath(*p.LocalhostProfile, at)
	}
}

func (j *validator) appArmor(p *v1.AppArmorProfile, path *field.Path) {
	if p == nil {
		return
	}
	const mustBeSet = "must be set when AppArmor type is Localhost"
	at := path.Child("localhostProfile")
	switch p.Type {
	case v1.AppArmorProfileTypeLocalhost:
		if p.LocalhostProfile == nil {
			j.Required(at, mustBeSet)
			return
		}
		name := *p.LocalhostProfile
		switch trimmed := strings.TrimSpace(name); {
		case trimmed != name:
			j.Invalid(at, name, "must not be padded with whitespace")
		case trimmed == "":
			j.Required(at, mustBeSet)
		}
		if len(name) > longestProfile {
			j.Add(field.TooLong(at, name, longestProfile))
		}
	case v1.AppArmorProfileTypeRuntimeDefault, v1.AppArmorProfileTypeUnconfined:
		if p.LocalhostProfile != nil {
			j.Invalid(at, *p.LocalhostProfile, "can only be set when AppArmor type is Localhost")
		}
	case "":
		j.Required(path.Child("type"), "type is required when appArmorProfile is set")
	default:
		typed.Supported(&j.Errors, path.Child("type"), p.Type, v1.AppArmorProfileTypeLocalhost,
			v1.AppArmorProfileTypeRuntimeDefault, v1.AppArmorProfileTypeUnconfined)
	}
}

// hostUsers checks that a Pod with a user namespace shares no other namespace with the host.
func (j *validator) hostUsers(spec *field.Path) {
	if j.spec.HostUsers == nil || *j.spec.HostUsers {
		return
	}
	const message = "when `hostUsers` is false"
	if j.spec.HostNetwork {
		j.Forbidden(spec.Child("hostNetwork"), message)
	}
	if j.spec.HostPID {
		j.Forbidden(spec.Child("HostPID"), message) // upstream's spelling
	}
	if j.spec.HostIPC {
		j.Forbidden(spec.Child("HostIPC"), message)
	}
	for i := range j.spec.InitContainers {
		if len(j.spec.InitContainers[i].VolumeDevices) > 0 {
			j.Forbidden(spec.Child("initContainers").Index(i).Child("volumeDevices"), message)
		}
	}
	for i := range j.spec.Containers {
		if len(j.spec.Containers[i].VolumeDevices) > 0 {
			j.Forbidden(spec.Child("containers").Index(i).Child("volumeDevices"), message)
		}
	}
	for i := range j.spec.EphemeralContainers {
		if len(j.spec.EphemeralContainers[i].VolumeDevices) > 0 {
			j.Forbidden(spec.Child("ephemeralContainers").Index(i).Child("volumeDevices"), message)
		}
	}
}

// hostNetwork checks that host ports equal container ports in a host-network Pod. A template may
// leave them unset: DefaultPod sets them. Ports of init containers are not checked, as upstream.
func (j *validator) hostNetwork(spec *field.Path) {
	if !j.spec.HostNetwork {
		return
	}
	for i := range j.spec.Containers {
		for k, p := range j.spec.Containers[i].Ports {
			if p.HostPort == p.ContainerPort || j.template && p.HostPort == 0 {
				continue
			}
			at := spec.Child("containers").Index(i).Child("ports").Index(k)
			j.Invalid(at.Child("hostPort"), p.HostPort, "must match `containerPort` when `hostNetwork` is true")
		}
	}
}
