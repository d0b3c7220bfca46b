package finding

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// sysctlsForbidden is how a text of PodSecurity about kernel settings begins.
const sysctlsForbidden = "forbidden sysctls"

// forbiddenSysctls is one finding for each of a Pod's kernel settings that a text of PodSecurity
// names.
func (c *Cluster) forbiddenSysctls(f Finding, spec *corev1.PodSpec, words string) []Finding {
	var out []Finding
	if spec.SecurityContext == nil {
		return []Finding{f}
	}
	for i, s := range spec.SecurityContext.Sysctls {
		if !strings.Contains(words, s.Name) {
			continue
		}
		g := f
		g.Field, g.Value = fmt.Sprintf("%s[%d].name", f.Field, i), s.Name
		g.Message += fmt.Sprintf(" It is sysctl %s=%s.", s.Name, s.Value)
		g.Remedies = []Remedy{{Say: "leave it out: the node's own value then holds", Run: c.patchCommand(f.Object,
			fmt.Sprintf(`[{"op":"remove","path":%s}]`, jsonText(pointer(fmt.Sprintf("%s[%d]", f.Field, i)))))}}
		out = append(out, g)
	}
	if len(out) == 0 {
		return []Finding{f}
	}
	return out
}

// restrictedTypes is the volume type that a text of PodSecurity names.
var restrictedTypes = regexp.MustCompile(`restricted volume types? "([A-Za-z]+)"`)

// quotedVolumes are the volumes that a text of PodSecurity names.
var quotedVolumes = regexp.MustCompile(`volumes? ((?:"[^"]+"(?:, )?)+)`)

// forbiddenVolumes is one finding for each volume that a text of PodSecurity names: its source is
// what the level forbids.
func (c *Cluster) forbiddenVolumes(f Finding, spec *corev1.PodSpec, at, words string) []Finding {
	m := quotedVolumes.FindStringSubmatch(words)
	if m == nil {
		return []Finding{f}
	}
	var out []Finding
	for name := range strings.SplitSeq(m[1], ", ") {
		i := indexOfVolume(spec, strings.Trim(name, `"`))
		if i < 0 {
			continue
		}
		x, v := f, spec.Volumes[i]
		x.Field, x.Value = fmt.Sprintf("%s.volumes[%d]", at, i), v.Name
		if v.HostPath != nil {
			x.Field, x.Value = x.Field+".hostPath", v.HostPath.Path
		} else if m := restrictedTypes.FindStringSubmatch(words); m != nil {
			x.Field, x.Value = x.Field+"."+m[1], v.Name
		}
		x.Message = fmt.Sprintf("%s It is volume %s (%s).", f.Message, v.Name, x.Value)
		x.Remedies = []Remedy{{Say: fmt.Sprintf("make %s an emptyDir, if the program does not need the node's files: "+
			"what is there now is not in it", v.Name), Run: c.patchCommand(f.Object, fmt.Sprintf(
			`[{"op":"replace","path":%s,"value":{"name":%s,"emptyDir":{}}}]`,
			jsonText(pointer(fmt.Sprintf("%s.volumes[%d]", at, i))), jsonText(v.Name)))}}
		out = append(out, x)
	}
	if len(out) == 0 {
		return []Finding{f}
	}
	return out
}

// forbiddenPorts is one finding for each port of the node that a container takes.
func (c *Cluster) forbiddenPorts(f Finding, x place) []Finding {
	var out []Finding
	for i, p := range x.c.Ports {
		if p.HostPort == 0 {
			continue
		}
		g := f
		g.Field, g.Value = fmt.Sprintf("%s.ports[%d].hostPort", x.at, i), fmt.Sprint(p.HostPort)
		g.Remedies = []Remedy{{Say: "give up the port of the node: a Service, of type NodePort where it has to be " +
			"reached from outside, leads to the container's", Run: c.patchCommand(f.Object, fmt.Sprintf(
			`[{"op":"remove","path":%s}]`, jsonText(pointer(g.Field))))}}
		out = append(out, g)
	}
	return out
}
