package podactions

import (
	"context"
	"fmt"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// Paths of /proc and /sys that the default procMount hides or makes read-only.
var (
	maskedPaths = []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list",
		"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// securityContext is the container's security context over the Pod's.
// https://kubernetes.io/docs/tasks/configure-pod-container/security-context/
func (c *operation) securityContext(ctx context.Context, m podplan.Member,
	ref string) (*runtimeapi.LinuxContainerSecurityContext, error) {
	pod, own := c.pod.Spec.SecurityContext, m.SecurityContext
	if pod == nil {
		pod = &v1.PodSecurityContext{}
	}
	if own == nil {
		own = &v1.SecurityContext{}
	}
	s := &runtimeapi.LinuxContainerSecurityContext{
		Privileged:       deref(own.Privileged),
		NamespaceOptions: c.namespacesOf(m),
		SelinuxOptions:   selinux(firstNonNil(own.SELinuxOptions, pod.SELinuxOptions)),
		RunAsUser:        int64Value(firstNonNil(own.RunAsUser, pod.RunAsUser)),
		RunAsGroup:       int64Value(firstNonNil(own.RunAsGroup, pod.RunAsGroup)),
		ReadonlyRootfs:   deref(own.ReadOnlyRootFilesystem),
		NoNewPrivs:       own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation,
		Seccomp:          c.seccomp(firstNonNil(own.SeccompProfile, pod.SeccompProfile), deref(own.Privileged)),
		Apparmor:         apparmor(firstNonNil(own.AppArmorProfile, pod.AppArmorProfile)),
	}
	s.SupplementalGroups, s.SupplementalGroupsPolicy = supplementalGroups(pod)
	var err error
	if s.NamespaceOptions.UsernsOptions, err = c.userNamespace(ctx); err != nil {
		return nil, err
	}
	if k := own.Capabilities; k != nil {
		s.Capabilities = &runtimeapi.Capability{}
		for _, name := range k.Add {
			s.Capabilities.AddCapabilities = append(s.Capabilities.AddCapabilities, string(name))
		}
		for _, name := range k.Drop {
			s.Capabilities.DropCapabilities = append(s.Capabilities.DropCapabilities, string(name))
		}
	}
	if own.ProcMount == nil || *own.ProcMount == v1.DefaultProcMount {
		s.MaskedPaths, s.ReadonlyPaths = maskedPaths, readonlyPaths
	}
	if must := firstNonNil(own.RunAsNonRoot, pod.RunAsNonRoot); must != nil && *must {
		if err := c.verifyRunAsNonRoot(ctx, m, s, ref); err != nil {
			return nil, err
		}
	}
	if s.RunAsGroup != nil && s.RunAsUser == nil {
		if err := c.imageUser(ctx, s, ref); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (c *operation) namespacesOf(m podplan.Member) *runtimeapi.NamespaceOption {
	n := namespaces(c.pod)
	if m.Target != "" {
		if t := c.observed.Latest(m.Target); t != nil {
			n.Pid, n.TargetId = runtimeapi.NamespaceMode_TARGET, t.ID
		}
	}
	return n
}

// verifyRunAsNonRoot refuses a container that would run as root although it must not.
func (c *operation) verifyRunAsNonRoot(ctx context.Context, m podplan.Member,
	s *runtimeapi.LinuxContainerSecurityContext, ref string) error {
	subject := fmt.Sprintf("(pod: %q, container: %s)", podplan.FullName(c.pod), m.Name)
	if s.RunAsUser != nil {
		if s.RunAsUser.Value == 0 {
			return fmt.Errorf("container's runAsUser breaks non-root policy %s", subject)
		}
		return nil
	}
	r, err := c.executor.d.Images.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: ref}, false)
	if err != nil {
		return fmt.Errorf("failed to inspect image %q: %w", m.Image, err)
	}
	switch uid, name := r.GetImage().GetUid(), r.GetImage().GetUsername(); {
	case uid != nil && uid.Value == 0, uid == nil && name == "":
		return fmt.Errorf("container has runAsNonRoot and image will run as root %s", subject)
	case uid == nil:
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is "+
			"non-root %s", name, subject)
	}
	return nil
}

// imageUser takes the user from the image, because CRI wants a user with a group.
func (c *operation) imageUser(ctx context.Context, s *runtimeapi.LinuxContainerSecurityContext, ref string) error {
	r, err := c.executor.d.Images.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: ref}, false)
	if err != nil {
		return fmt.Errorf("failed to inspect image %q: %w", ref, err)
	}
	switch uid, name := r.GetImage().GetUid(), r.GetImage().GetUsername(); {
	case uid != nil:
		s.RunAsUser = &runtimeapi.Int64Value{Value: uid.Value}
	case name != "":
		s.RunAsUsername = name
	default:
		s.RunAsUser = &runtimeapi.Int64Value{}
	}
	return nil
}

func (c *operation) seccomp(p *v1.SeccompProfile, privileged bool) *runtimeapi.SecurityProfile {
	switch {
	case privileged:
	case p == nil && !c.executor.d.Node.SeccompDefault:
	case p == nil || p.Type == v1.SeccompProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
	case p.Type == v1.SeccompProfileTypeLocalhost:
		return &runtimeapi.SecurityProfile{
			ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: filepath.Join(c.executor.d.Node.RootDir,
				"seccomp", deref(p.LocalhostProfile)),
		}
	}
	return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
}

func apparmor(p *v1.AppArmorProfile) *runtimeapi.SecurityProfile {
	if p == nil {
		return nil
	}
	switch p.Type {
	case v1.AppArmorProfileTypeLocalhost:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost,
			LocalhostRef: deref(p.LocalhostProfile)}
	case v1.AppArmorProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
	}
	return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
}

func supplementalGroups(sc *v1.PodSecurityContext) ([]int64, runtimeapi.SupplementalGroupsPolicy) {
	var out []int64
	if sc.FSGroup != nil {
		out = append(out, *sc.FSGroup)
	}
	out = append(out, sc.SupplementalGroups...)
	policy := runtimeapi.SupplementalGroupsPolicy_Merge
	if p := sc.SupplementalGroupsPolicy; p != nil && *p == v1.SupplementalGroupsPolicyStrict {
		policy = runtimeapi.SupplementalGroupsPolicy_Strict
	}
	return out, policy
}

func selinux(o *v1.SELinuxOptions) *runtimeapi.SELinuxOption {
	if o == nil {
		return nil
	}
	return &runtimeapi.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

func int64Value(p *int64) *runtimeapi.Int64Value {
	if p == nil {
		return nil
	}
	return &runtimeapi.Int64Value{Value: *p}
}

// firstNonNil returns the first pointer that is set.
func firstNonNil[T any](own, other *T) *T {
	if own != nil {
		return own
	}
	return other
}
