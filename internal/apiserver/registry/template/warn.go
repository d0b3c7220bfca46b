package template

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Warnings are what a client should read about a spec that is accepted. path is where the template lies; nil for a Pod.
func Warnings(s *v1.PodSpec, annotations map[string]string, path *field.Path) []string {
	w := &warnings{spec: s, template: path != nil, path: path.Child("spec")}
	w.volumes()
	w.containers()
	w.misc()
	w.annotations(annotations, path.Child("metadata", "annotations"))
	w.ports()
	return w.out
}

type warnings struct {
	spec     *v1.PodSpec
	template bool
	path     *field.Path
	out      []string
}

const appArmorDeprecated = `deprecated since v1.30; use the "appArmorProfile" field instead`

// AppArmorWarnings are for the annotations of a Pod that stand in for fields; path is that of the annotations. They are asked for before
// SyncAppArmor, which fills the fields in.
func AppArmorWarnings(s *v1.PodSpec, annotations map[string]string, path *field.Path) []string {
	w := &warnings{spec: s}
	for _, k := range OldAppArmor(s, annotations) {
		w.say(path.Key(k), appArmorDeprecated)
	}
	return w.out
}

// OldAppArmor are the annotations that name the profile of a container without one in its fields.
func OldAppArmor(s *v1.PodSpec, annotations map[string]string) []string {
	var out []string
	eachAny(s, func(c *v1.Container) {
		key := v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + c.Name
		if _, ok := annotations[key]; ok && (c.SecurityContext == nil || c.SecurityContext.AppArmorProfile == nil) {
			out = append(out, key)
		}
	})
	return out
}

func (w *warnings) say(p *field.Path, format string, args ...any) {
	w.out = append(w.out, p.String()+": "+fmt.Sprintf(format, args...))
}

func (w *warnings) volumes() {
	for i := range w.spec.Volumes {
		v, at := &w.spec.Volumes[i], w.path.Child("volumes").Index(i)
		for _, old := range []struct {
			set         bool
			child, text string
		}{
			{v.PhotonPersistentDisk != nil, "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"},
			{v.GitRepo != nil, "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"},
			{v.ScaleIO != nil, "scaleIO", "deprecated in v1.16, non-functional in v1.22+"},
			{v.Flocker != nil, "flocker", "deprecated in v1.22, non-functional in v1.25+"},
			{v.StorageOS != nil, "storageOS", "deprecated in v1.22, non-functional in v1.25+"},
			{v.Quobyte != nil, "quobyte", "deprecated in v1.22, non-functional in v1.25+"},
			{v.Glusterfs != nil, "glusterfs", "deprecated in v1.25, non-functional in v1.26+"},
			{v.CephFS != nil, "cephfs", "deprecated in v1.28, non-functional in v1.31+"},
			{v.RBD != nil, "rbd", "deprecated in v1.28, non-functional in v1.31+"},
		} {
			if old.set {
				w.say(at.Child(old.child), "%s", old.text)
			}
		}
		if e := v.Ephemeral; e != nil && e.VolumeClaimTemplate != nil {
			w.fractions(e.VolumeClaimTemplate.Spec.Resources.Requests, at.Child("ephemeral", "volumeClaimTemplate", "spec", "resources", "requests"), v1.ResourceStorage)
		}
		if p := v.Projected; p != nil && !slices.ContainsFunc(p.Sources, hasSource) {
			w.out = append(w.out, fmt.Sprintf("volume %q (Projected) has no sources provided", v.Name))
		}
	}
}

func hasSource(s v1.VolumeProjection) bool { return s != (v1.VolumeProjection{}) }

func (w *warnings) each(f func(*v1.Container, *field.Path)) {
	for i := range w.spec.InitContainers {
		f(&w.spec.InitContainers[i], w.path.Child("initContainers").Index(i))
	}
	for i := range w.spec.Containers {
		f(&w.spec.Containers[i], w.path.Child("containers").Index(i))
	}
	for i := range w.spec.EphemeralContainers {
		f((*v1.Container)(&w.spec.EphemeralContainers[i].EphemeralContainerCommon), w.path.Child("ephemeralContainers").Index(i))
	}
}

func (w *warnings) containers() {
	w.each(func(c *v1.Container, p *field.Path) {
		at := p.Child("resources")
		w.fractions(c.Resources.Limits, at.Child("limits"), v1.ResourceMemory, v1.ResourceEphemeralStorage)
		w.fractions(c.Resources.Requests, at.Child("requests"), v1.ResourceMemory, v1.ResourceEphemeralStorage)
		seen := map[string]bool{}
		for i, e := range c.Env {
			if seen[e.Name] {
				w.say(p.Child("env").Index(i), "hides previous definition of %q, which may be dropped when using apply", e.Name)
			}
			seen[e.Name] = true
		}
	})
}

// fractions warns of bytes that are not whole.
func (w *warnings) fractions(list v1.ResourceList, path *field.Path, names ...v1.ResourceName) {
	const thousand = 1000
	for _, n := range names {
		if q, ok := list[n]; ok && q.MilliValue()%thousand != 0 {
			w.say(path.Key(string(n)), "fractional byte value %q is invalid, must be an integer", q.String())
		}
	}
}

func (w *warnings) misc() {
	for i := range w.spec.TopologySpreadConstraints {
		if w.spec.TopologySpreadConstraints[i].LabelSelector == nil {
			w.say(w.path.Child("topologySpreadConstraints").Index(i).Child("labelSelector"), "a null labelSelector results in matching no pod")
		}
	}
	w.affinity()
	seen := map[string]bool{}
	for i, a := range w.spec.HostAliases {
		if seen[a.IP] {
			w.say(w.path.Child("hostAliases").Index(i).Child("ip"), "duplicate ip %q", a.IP)
		}
		seen[a.IP] = true
	}
	secrets := map[string]bool{}
	for i, s := range w.spec.ImagePullSecrets {
		at := w.path.Child("imagePullSecrets").Index(i).Child("name")
		switch {
		case s.Name == "":
			w.say(at, "invalid empty name %q", s.Name)
		case secrets[s.Name]:
			w.say(at, "duplicate name %q", s.Name)
		}
		secrets[s.Name] = true
	}
	if a := w.spec.NodeSelector; a != nil {
		w.nodeLabels(a)
	}
	if g := w.spec.TerminationGracePeriodSeconds; g != nil && *g < 0 {
		w.say(w.path.Child("terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
}

// nodeLabels warns of selectors by labels that were renamed long ago.
func (w *warnings) nodeLabels(m map[string]string) {
	for _, old := range []struct{ label, text string }{
		{"beta.kubernetes.io/arch", `deprecated since v1.14; use "kubernetes.io/arch" instead`},
		{"beta.kubernetes.io/os", `deprecated since v1.14; use "kubernetes.io/os" instead`},
		{"failure-domain.beta.kubernetes.io/region", `deprecated since v1.17; use "topology.kubernetes.io/region" instead`},
		{"failure-domain.beta.kubernetes.io/zone", `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`},
		{"beta.kubernetes.io/instance-type", `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`},
	} {
		if _, ok := m[old.label]; ok {
			w.say(w.path.Child("nodeSelector").Key(old.label), "%s", old.text)
		}
	}
}

func (w *warnings) affinity() {
	a := w.spec.Affinity
	if a == nil {
		return
	}
	terms := func(required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm, at *field.Path) {
		const text = "a null labelSelector results in matching no pod"
		for i := range required {
			if required[i].LabelSelector == nil {
				w.say(at.Child(requiredTerms).Index(i).Child("labelSelector"), text)
			}
		}
		for i := range preferred {
			if preferred[i].PodAffinityTerm.LabelSelector == nil {
				w.say(at.Child(preferredTerms).Index(i).Child("podAffinityTerm", "labelSelector"), text)
			}
		}
	}
	if p := a.PodAffinity; p != nil {
		terms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, w.path.Child("affinity", "podAffinity"))
	}
	if p := a.PodAntiAffinity; p != nil {
		terms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, w.path.Child("affinity", "podAntiAffinity"))
	}
}

func (w *warnings) annotations(a map[string]string, path *field.Path) {
	if w.template {
		for _, k := range OldAppArmor(w.spec, a) {
			w.say(path.Key(k), appArmorDeprecated)
		}
	}
	for _, k := range []string{"scheduler.alpha.kubernetes.io/critical-pod"} {
		if _, ok := a[k]; ok {
			w.say(path.Key(k), `non-functional in v1.16+; use the "priorityClassName" field instead`)
		}
	}
}

// ports warns of ports that shadow one another across containers, and of host addresses that mean nothing.
func (w *warnings) ports() {
	byName, byPort := map[string]*field.Path{}, map[string]*field.Path{}
	key := func(p *v1.ContainerPort) string {
		return fmt.Sprintf("%d/%s/%d/%s", p.ContainerPort, p.Protocol, p.HostPort, p.HostIP)
	}
	w.each(func(c *v1.Container, p *field.Path) {
		for i := range c.Ports {
			port, at := &c.Ports[i], p.Child("ports").Index(i)
			if port.HostIP != "" && port.HostPort == 0 {
				w.say(at, "hostIP set without hostPort: %+v", bracketed(*port))
			}
			if first, ok := byName[port.Name]; ok && port.Name != "" {
				w.say(at, "duplicate port name %q with %s, services and probes that select ports by name will use %s", port.Name, first, first)
			}
			if first, ok := byPort[key(port)]; ok {
				w.say(at, "duplicate port definition with %s", first)
			}
		}
		// A container's own ports count only for the containers after it.
		for i := range c.Ports {
			port, at := &c.Ports[i], p.Child("ports").Index(i)
			if _, ok := byPort[key(port)]; !ok {
				byPort[key(port)] = at
			}
			if _, ok := byName[port.Name]; !ok && port.Name != "" {
				byName[port.Name] = at
			}
		}
	})
}

// bracketed prints a port as upstream's warning does.
func bracketed(p v1.ContainerPort) string {
	return strings.Join([]string{
		"{Name:" + p.Name, fmt.Sprintf("HostPort:%d", p.HostPort), fmt.Sprintf("ContainerPort:%d", p.ContainerPort), "Protocol:" + string(p.Protocol), "HostIP:" + p.HostIP + "}",
	}, " ")
}
