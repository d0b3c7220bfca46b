package explain

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// ownKey matches the path of one label or annotation of a Pod.
var ownKey = regexp.MustCompile(`^metadata\.(labels|annotations)\['([^']+)'\]$`)

// emptyVariable is a variable that a container has, and that is empty: its value is so, or it is
// that of a label or annotation which the Pod does not have.
func emptyVariable(in In, c container, at string, i int) (restriction, bool) {
	e := c.spec.Env[i]
	r := restriction{field: fmt.Sprintf("%s.env[%d].value", at, i)}
	if e.Value == "" && e.ValueFrom == nil {
		r.text = fmt.Sprintf("It says that %s is wanted, and the container's variable of that name is empty "+
			"(%s).", e.Name,
			r.field)
		r.fixes = []Fix{editedContainer(in, c.spec.Name, fmt.Sprintf("set %s; the value is yours to fill in, "+
			"CHANGE-ME stands for it", e.Name), func(x *corev1.Container) { x.Env[i].Value = "CHANGE-ME" })}
		return r, true
	}
	if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
		return restriction{}, false
	}
	path := e.ValueFrom.FieldRef.FieldPath
	m := ownKey.FindStringSubmatch(path)
	if m == nil {
		return restriction{}, false
	}
	have, kind := in.Pod.Labels, "label"
	if m[1] == "annotations" {
		have, kind = in.Pod.Annotations, "annotation"
	}
	if have[m[2]] != "" {
		return restriction{}, false
	}
	r.field, r.value = fmt.Sprintf("%s.env[%d].valueFrom.fieldRef.fieldPath", at, i), path
	r.text = fmt.Sprintf("Its variable %s is the Pod's %s %s (%s), and the Pod has no such %s: the variable is empty.",
		e.Name, kind, m[2], r.field, kind)
	near, how := finding.Near(m[2], slices.Collect(maps.Keys(have)))
	if near == "" {
		return r, true
	}
	r.want = fmt.Sprintf("metadata.%s['%s']", m[1], near)
	r.text += fmt.Sprintf(" It has %s: perhaps that was meant; %s.", near, how)
	r.fixes = []Fix{editedContainer(in, c.spec.Name, fmt.Sprintf("let %s be the %s %s", e.Name, kind, near),
		func(x *corev1.Container) {
			from := x.Env[i].ValueFrom.DeepCopy()
			from.FieldRef.FieldPath = r.want
			x.Env[i].ValueFrom = from
		})}
	return r, true
}

// otherPrefix is an envFrom that brings a wanted variable under a name with another prefix.
func otherPrefix(in In, c container, at, name string) (restriction, bool) {
	for i, from := range c.spec.EnvFrom {
		prefix, now, ok := in.Objects.NearPrefix(from, in.Ref.Namespace, name)
		if !ok {
			continue
		}
		field := fmt.Sprintf("%s.envFrom[%d].prefix", at, i)
		return restriction{field: field, value: from.Prefix, want: prefix, text: fmt.Sprintf("It says that %s is "+
			"wanted, and the container has %s, by the prefix %q (%s).", name, now, from.Prefix, field),
			fixes: []Fix{editedContainer(in, c.spec.Name, fmt.Sprintf("let the prefix be %q", prefix),
				func(x *corev1.Container) {
					list := slices.Clone(x.EnvFrom)
					list[i].Prefix = prefix
					x.EnvFrom = list
				})}}, true
	}
	return restriction{}, false
}
