package finding

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// How a container's texts use variables: as the kubelet replaces them, and as a shell does.
var (
	reference  = regexp.MustCompile(`\$?\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)`)
	shellsWord = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)`)
)

// shells are programs whose arguments may be scripts, in which $(date) is a program's output.
var shells = map[string]bool{"sh": true, "bash": true, "ash": true, "dash": true, "zsh": true}

// text is one of a container's command, arguments and variables.
type text struct {
	field, text string
	before      int // how many of env are defined where it is read
}

// textsOf are the texts of a container.
func textsOf(x *corev1.Container) []text {
	var out []text
	for i, s := range x.Command {
		out = append(out, text{fmt.Sprintf("command[%d]", i), s, len(x.Env)})
	}
	for i, s := range x.Args {
		out = append(out, text{fmt.Sprintf("args[%d]", i), s, len(x.Env)})
	}
	for i, e := range x.Env {
		out = append(out, text{fmt.Sprintf("env[%d].value", i), e.Value, i})
	}
	return out
}

// askingTexts are textsOf, and the words of the programs of its probes: they too ask for hosts.
func askingTexts(x *corev1.Container) []text {
	out := textsOf(x)
	for _, p := range []struct {
		name  string
		probe *corev1.Probe
	}{{"startupProbe", x.StartupProbe}, {"readinessProbe", x.ReadinessProbe}, {"livenessProbe", x.LivenessProbe}} {
		if p.probe == nil || p.probe.Exec == nil {
			continue
		}
		for i, s := range p.probe.Exec.Command {
			out = append(out, text{fmt.Sprintf("%s.exec.command[%d]", p.name, i), s, len(x.Env)})
		}
	}
	return out
}

// uses are a container's variables, and where they are used.
type uses struct {
	place
	from   map[string]bool // what envFrom brings
	at     map[string]int  // index in env of each name's first definition
	script bool            // the arguments are a shell's script
	well   bool            // a Pod of it is ready
	linked string          // the field by which Services give it no variables; empty: they do
}

// variables finds $(NAME) in commands, arguments and values that no variable is named, or one that
// is defined later, and variables in a shell's spelling where no shell reads them.
func variables(c *Cluster, o metav1.Object, self Object) []Finding {
	well := c.anyReady(o)
	return eachContainer(o, self, func(x place) []Finding {
		u := uses{place: x, from: map[string]bool{}, at: map[string]int{}, well: well, linked: linksOff(o)}
		for _, from := range x.c.EnvFrom {
			keys, ok := c.envKeys(from, self.Namespace)
			if !ok {
				return nil
			}
			for _, k := range keys {
				u.from[from.Prefix+k] = true
			}
		}
		for i, e := range x.c.Env {
			if _, twice := u.at[e.Name]; !twice {
				u.at[e.Name] = i
			}
		}
		first := append(slices.Clone(x.c.Command), x.c.Args...)
		u.script = len(first) > 1 && shells[path.Base(first[0])]
		var out []Finding
		for _, t := range textsOf(x.c) {
			out = append(out, c.undefined(u, t)...)
			if t.before == len(x.c.Env) {
				out = append(out, c.shellSpelled(u, t)...)
			}
		}
		return out[:min(len(out), 3)]
	})
}

// undefined finds $(NAME) in a text for which the container has no such variable among those before
// one of its env.
func (c *Cluster) undefined(u uses, t text) []Finding {
	var out []Finding
	for _, m := range reference.FindAllStringSubmatch(t.text, -1) {
		name := m[1]
		service := strings.HasSuffix(name, "_SERVICE_HOST") || strings.HasSuffix(name, "_SERVICE_PORT") ||
			strings.Contains(name, "_PORT")
		program := u.script && strings.ToLower(name) == name // $(date) in a script
		i, defined := u.at[name]
		switch {
		case strings.HasPrefix(m[0], "$$"), u.from[name], defined && i < t.before:
		case defined:
			out = append(out, c.later(u, t, name))
		case service && u.linked != "":
			out = append(out, c.unlinked(u, name)...)
		case !service && !program:
			have := append(slices.Collect(maps.Keys(u.from)), slices.Collect(maps.Keys(u.at))...)
			out = append(out, c.variable(u.place, t, name, have))
		}
	}
	return out
}

// linksOff is the field by which a Pod gets no variables from Services; empty where it gets them.
func linksOff(o metav1.Object) string {
	if spec, at := podSpecOf(o); spec != nil && spec.EnableServiceLinks != nil && !*spec.EnableServiceLinks {
		return at + ".enableServiceLinks"
	}
	return ""
}

// unlinked is a use of a variable that a Service would give, were it not switched off.
func (c *Cluster) unlinked(u uses, name string) []Finding {
	for _, s := range in[*corev1.Service](c, "Service", u.self.Namespace) {
		prefix := strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
		if rest, ok := strings.CutPrefix(name, prefix+"_"); !ok || !strings.HasPrefix(rest, "SERVICE_") &&
			!strings.HasPrefix(rest, "PORT") {
			continue
		}
		f := Finding{Code: "VariableUndefined", Severity: Threat, Stage: StageRun, Object: u.self, Field: u.linked,
			Value: "false", Want: "true", Related: []Object{objectOf("Service", s)},
			Message: fmt.Sprintf("Container %s uses $(%s), which Service %s would give it, and enableServiceLinks is "+
				"false: there is no such variable.", u.c.Name, name, s.Name)}
		f.setTo(c, "true")
		return []Finding{f}
	}
	return nil
}

// variable is a use of a variable that the container does not have, with the one that was probably
// meant.
func (c *Cluster) variable(x place, t text, name string, have []string) Finding {
	f := Finding{Code: "VariableUndefined", Severity: Threat, Stage: StageRun, Object: x.self,
		Field: x.at + "." + t.field, Value: "$(" + name + ")", Message: fmt.Sprintf("%s of container %s has $(%s), "+
			"and the container has no variable of that name: the text stays as it is.", t.field, x.c.Name, name)}
	near, how := Near(name, have)
	if near == "" {
		near, how = nameWithPrefix(name, have)
	}
	if near != "" {
		f.Want = "$(" + near + ")"
		f.Message += fmt.Sprintf(" Perhaps %s was meant; %s.", f.Want, how)
		f.Remedies = []Remedy{{Say: "write " + f.Want, Run: c.replaceCommand(x.self, f.Field,
			strings.ReplaceAll(t.text, f.Value, f.Want))}}
	}
	return f
}

// nameWithPrefix returns the one name of have that is want with something before or behind it, as a
// prefix of envFrom puts there, or the other way round; empty when there is none, or several.
func nameWithPrefix(want string, have []string) (name, differs string) {
	for _, h := range slices.Sorted(slices.Values(have)) {
		short, long := want, h
		if len(h) < len(want) {
			short, long = h, want
		}
		rest, ok := strings.CutSuffix(long, short)
		if !ok {
			rest, ok = strings.CutPrefix(long, short)
		}
		if !ok || len(rest) < 2 || !strings.ContainsAny(rest, "_-.") || len(short) < 2 {
			continue
		}
		if name != "" && name != h {
			return "", ""
		}
		name, differs = h, "it differs by "+rest
	}
	return name, differs
}

// later is a use of a variable in the value of another that stands before it: values are made in
// order.
func (c *Cluster) later(u uses, t text, name string) Finding {
	at := u.at[name]
	f := Finding{Code: "VariableLater", Severity: Threat, Stage: StageRun, Object: u.self,
		Field: u.place.at + "." + t.field, Value: "$(" + name + ")",
		Numbers: map[string]string{"index": fmt.Sprint(t.before), "defined": fmt.Sprint(at)}}
	if at == t.before {
		f.Message = fmt.Sprintf("%s of container %s has $(%s), its own name, and nothing before it defines that: the "+
			"text stays as it is. What the image sets is not known here.", t.field, u.c.Name, name)
		return f
	}
	f.Message = fmt.Sprintf("%s of container %s has $(%s), which env[%d] defines, after it: values are made in order, "+
		"so the text stays as it is.", t.field, u.c.Name, name, at)
	list := pointer(u.place.at + ".env")
	f.Remedies = []Remedy{{Say: fmt.Sprintf("define %s before it", name), Run: c.patchCommand(u.self, fmt.Sprintf(
		`[{"op":"move","from":%s,"path":%s}]`, jsonText(fmt.Sprintf("%s/%d", list, at)),
		jsonText(fmt.Sprintf("%s/%d", list, t.before))))}}
	return f
}

// shellSpelled finds ${NAME} and $NAME of a variable that the container has, where no shell reads
// them. A program may read them so itself: of one that is well it is worth a note.
func (c *Cluster) shellSpelled(u uses, t text) []Finding {
	words := append(slices.Clone(u.c.Command), u.c.Args...)
	if u.script || slices.Contains(words, "-c") || strings.ContainsAny(t.text, "\n;|&") {
		return nil
	}
	var out []Finding
	for _, m := range shellsWord.FindAllStringSubmatchIndex(t.text, -1) {
		name := ""
		for i := 2; i+1 < len(m); i += 2 {
			if m[i] >= 0 {
				name = t.text[m[i]:m[i+1]]
			}
		}
		_, defined := u.at[name]
		if m[0] > 0 && strings.ContainsRune(`$\`, rune(t.text[m[0]-1])) || !defined && !u.from[name] {
			continue
		}
		f := Finding{Code: "VariableOfShell", Severity: Threat, Stage: StageRun, Object: u.self,
			Field: u.place.at + "." + t.field, Value: t.text[m[0]:m[1]], Want: "$(" + name + ")"}
		if u.well {
			f.Severity = Note
		}
		f.Message = fmt.Sprintf("%s of container %s has %s, as a shell writes it, and no shell reads it: the kubelet "+
			"replaces %s alone.", t.field, u.c.Name, f.Value, f.Want)
		f.Remedies = []Remedy{{Say: "write " + f.Want, Run: c.replaceCommand(u.self, f.Field,
			t.text[:m[0]]+f.Want+t.text[m[1]:])}}
		out = append(out, f)
	}
	return out
}

// Brings reports whether an envFrom brings a variable; known is false when the keys of what it
// names are not known.
func (c *Cluster) Brings(from corev1.EnvFromSource, namespace, variable string) (brings, known bool) {
	keys, known := c.envKeys(from, namespace)
	name, prefixed := strings.CutPrefix(variable, from.Prefix)
	return prefixed && slices.Contains(keys, name), known
}

// NearPrefix is the prefix with which an envFrom would bring a variable that it does not bring, and
// the name under which it brings it; ok is false where no prefix would.
func (c *Cluster) NearPrefix(from corev1.EnvFromSource, namespace, variable string) (prefix, now string, ok bool) {
	if c == nil {
		return "", "", false
	}
	keys, _ := c.envKeys(from, namespace) // none where they are not known
	for _, k := range keys {
		if rest, ends := strings.CutSuffix(variable, k); ends && rest != from.Prefix && (rest == "" ||
			strings.HasSuffix(rest, "_")) {
			return rest, from.Prefix + k, true
		}
	}
	return "", "", false
}

// envKeys returns the keys that an envFrom brings; ok is false when they are not known.
func (c *Cluster) envKeys(from corev1.EnvFromSource, ns string) ([]string, bool) {
	o := metav1.Object(nil)
	if r := from.ConfigMapRef; r != nil {
		o = c.Get(Object{"ConfigMap", ns, r.Name})
	}
	if r := from.SecretRef; r != nil {
		o = c.Get(Object{"Secret", ns, r.Name})
	}
	if o == nil {
		return nil, false
	}
	return keysOf(o)
}
