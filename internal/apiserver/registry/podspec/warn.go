package podspec

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Warnings returns the warnings about a valid spec in upstream's order. path is that of the
// template; nil for a Pod.
func Warnings(s *v1.PodSpec, annotations map[string]string, path *field.Path) []string {
	w := &warnings{spec: s, template: path != nil, path: path.Child("spec")}
	notes := path.Child("metadata", "annotations")
	w.nodes()
	w.annotations(annotations, notes)
	w.volumes()
	w.overlaps()
	w.duplicates()
	w.fractions(s.Overhead, w.path.Child("overhead"), v1.ResourceMemory, v1.ResourceEphemeralStorage)
	w.containers(annotations, notes)
	w.ports()
	w.portNames()
	if g := s.TerminationGracePeriodSeconds; g != nil && *g < 0 {
		w.add(w.path.Child("terminationGracePeriodSeconds"),
			"must be >= 0; negative values are invalid and will be treated as 1")
	}
	w.affinity()
	w.addresses()
	return w.out
}

// warnings collects the warnings about one spec; its methods append.
type warnings struct {
	spec     *v1.PodSpec
	template bool
	path     *field.Path
	out      []string
	compared int // pairs of files, and of ports
}

// Bounds of the work on a Pod whose ports or files all conflict with each other, of which a request
// can hold a hundred thousand: how many pairs are compared, and after how many bytes of warnings to
// stop. The library sends clients about four thousand characters of warnings at most.
const (
	maxComparisons = 1 << 17
	maxWarnings    = 1000
)

// hasNext reports whether another pair may be compared, and counts it.
func (w *warnings) hasNext() bool {
	w.compared++
	return w.compared <= maxComparisons && len(w.out) < maxWarnings
}

const appArmorDeprecated = `deprecated since v1.30; use the "appArmorProfile" field instead`

// AppArmorWarnings returns the warnings about AppArmor annotations of a new Pod that its fields do
// not say already; path is that of the annotations. Call it before SyncAppArmor, which sets the
// fields.
func AppArmorWarnings(s *v1.PodSpec, annotations map[string]string, path *field.Path) []string {
	if s.OS != nil && s.OS.Name == v1.Windows {
		return nil
	}
	w := &warnings{spec: s}
	whole := podAppArmor(s)
	visitAllContainers(s, func(c *v1.Container) {
		key := v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + c.Name
		text, ok := annotations[key]
		if !ok || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			return
		}
		if p := usableProfile(text); p == nil || whole == nil || !apiequality.Semantic.DeepEqual(p, whole) {
			w.add(path.Key(key), appArmorDeprecated)
		}
	})
	return w.out
}

// add appends a warning about a path.
func (w *warnings) add(p *field.Path, format string, args ...any) {
	w.out = append(w.out, p.String()+": "+fmt.Sprintf(format, args...))
}

// visitContainers calls f for all containers in upstream's order.
func (w *warnings) visitContainers(f func(*v1.Container, *field.Path)) {
	for i := range w.spec.InitContainers {
		f(&w.spec.InitContainers[i], w.path.Child("initContainers").Index(i))
	}
	for i := range w.spec.Containers {
		f(&w.spec.Containers[i], w.path.Child("containers").Index(i))
	}
	for i := range w.spec.EphemeralContainers {
		f((*v1.Container)(&w.spec.EphemeralContainers[i].EphemeralContainerCommon),
			w.path.Child("ephemeralContainers").Index(i))
	}
}

// annotations warns of annotations without effect.
func (w *warnings) annotations(a map[string]string, path *field.Path) {
	for _, old := range []struct{ key, text string }{
		{"scheduler.alpha.kubernetes.io/critical-pod",
			`non-functional in v1.16+; use the "priorityClassName" field instead`},
		{"security.alpha.kubernetes.io/sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
		{"security.alpha.kubernetes.io/unsafe-sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
	} {
		if _, ok := a[old.key]; ok {
			w.add(path.Key(old.key), "%s", old.text)
		}
	}
}

// containers warns of each container's annotations, quantities and variables, and of the Pod's
// seccomp annotation.
func (w *warnings) containers(a map[string]string, notes *field.Path) {
	const seccomp = `non-functional in v1.27+; use the "seccompProfile" field instead`
	pod := w.spec.SecurityContext
	if _, ok := a[v1.SeccompPodAnnotationKey]; ok && (pod == nil || pod.SeccompProfile == nil) {
		w.add(notes.Key(v1.SeccompPodAnnotationKey), "%s", seccomp)
	}
	w.visitContainers(func(c *v1.Container, p *field.Path) {
		s := c.SecurityContext
		key := v1.SeccompContainerAnnotationKeyPrefix + c.Name
		if _, ok := a[key]; ok && (s == nil || s.SeccompProfile == nil) {
			w.add(notes.Key(key), "%s", seccomp)
		}
		// For a Pod, AppArmorWarnings has warned already, before SyncAppArmor.
		key = v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + c.Name
		if text, ok := a[key]; ok && w.template && (s == nil || s.AppArmorProfile == nil) && (pod == nil ||
			pod.AppArmorProfile == nil || !apiequality.Semantic.DeepEqual(pod.AppArmorProfile, profileOf(text))) {
			w.add(notes.Key(key), "%s", appArmorDeprecated)
		}
		at := p.Child("resources")
		for _, n := range []v1.ResourceName{v1.ResourceMemory, v1.ResourceEphemeralStorage} {
			w.fractions(c.Resources.Limits, at.Child("limits"), n)
			w.fractions(c.Resources.Requests, at.Child("requests"), n)
		}
		w.duplicateEnv(c.Env, p.Child("env"))
	})
}

// duplicateEnv warns of a variable that replaces an earlier one without referring to it.
func (w *warnings) duplicateEnv(env []v1.EnvVar, path *field.Path) {
	seen := map[string]bool{}
	for i, e := range env {
		earlier := "$(" + e.Name + ")"
		extends := e.ValueFrom == nil && e.Value != earlier && strings.Contains(e.Value, earlier)
		if seen[e.Name] && !extends {
			w.add(path.Index(i), "hides previous definition of %q, which may be dropped when using apply", e.Name)
		}
		seen[e.Name] = true
	}
}

// fractions warns of quantities that are not whole bytes.
func (w *warnings) fractions(list v1.ResourceList, path *field.Path, names ...v1.ResourceName) {
	const thousand = 1000
	for _, n := range names {
		if q, ok := list[n]; ok && q.MilliValue()%thousand != 0 {
			w.add(path.Key(string(n)), "fractional byte value %q is invalid, must be an integer", q.String())
		}
	}
}

// duplicates warns of duplicate host aliases and image pull secrets.
func (w *warnings) duplicates() {
	seen := map[string]bool{}
	for i, a := range w.spec.HostAliases {
		if seen[a.IP] {
			w.add(w.path.Child("hostAliases").Index(i).Child("ip"), "duplicate ip %q", a.IP)
		}
		seen[a.IP] = true
	}
	secrets, path := map[string]bool{}, w.path.Child("imagePullSecrets")
	for i, s := range w.spec.ImagePullSecrets {
		if secrets[s.Name] {
			w.add(path.Index(i).Child("name"), "duplicate name %q", s.Name)
		}
		secrets[s.Name] = true
	}
	for i, s := range w.spec.ImagePullSecrets {
		if s.Name == "" {
			w.add(path.Index(i).Child("name"), "invalid empty name %q", s.Name)
		}
	}
}

// addresses warns of deprecated forms of IP addresses.
func (w *warnings) addresses() {
	if c := w.spec.DNSConfig; c != nil {
		for i, ip := range c.Nameservers {
			w.out = append(w.out, validation.GetWarningsForIP(w.path.Child("dnsConfig", "nameservers").Index(i), ip)...)
		}
	}
	for i, a := range w.spec.HostAliases {
		w.out = append(w.out, validation.GetWarningsForIP(w.path.Child("hostAliases").Index(i).Child("ip"), a.IP)...)
	}
}
