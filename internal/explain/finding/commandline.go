package finding

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// namedTwice finds variables that a container's env defines twice with different contents: the
// later one counts. One that uses the earlier, as in $(PATH):/more, adds to it.
func namedTwice(c *Cluster, o metav1.Object, self Object) []Finding {
	if metav1.GetControllerOf(o) != nil {
		return nil
	}
	return eachContainer(o, self, func(x place) []Finding {
		at := map[string]int{}
		var out []Finding
		for i, e := range x.c.Env {
			first, twice := at[e.Name]
			if !twice {
				at[e.Name] = i
				continue
			}
			was := x.c.Env[first]
			if strings.Contains(e.Value, "$("+e.Name+")") || was.Value == e.Value && was.ValueFrom == nil &&
				e.ValueFrom == nil {
				continue
			}
			f := Finding{Code: "VariableTwice", Severity: Threat, Stage: StageRun, Object: self,
				Field: fmt.Sprintf("%s.env[%d].name", x.at, first), Value: e.Name,
				Numbers: map[string]string{"first": fmt.Sprint(first), "counts": fmt.Sprint(i)},
				Message: fmt.Sprintf("Container %s of %s %s has the variable %s twice, env[%d] (%s) and env[%d] (%s): "+
					"the later one counts, the earlier one is lost.", x.c.Name, self.Kind, self.Name, e.Name, first,
					contentOf(was), i, contentOf(e))}
			f.Remedies = []Remedy{{Say: fmt.Sprintf("remove the one that is not meant; env[%d] has no effect", first),
				Run: c.patchCommand(self, fmt.Sprintf(`[{"op":"remove","path":%s}]`,
					jsonText(pointer(fmt.Sprintf("%s.env[%d]", x.at, first)))))}}
			out = append(out, f)
		}
		return out
	})
}

// contentOf is a variable's content, or where it comes from.
func contentOf(e corev1.EnvVar) string {
	s := e.ValueFrom
	switch {
	case s == nil:
		return fmt.Sprintf("%q", e.Value)
	case s.ConfigMapKeyRef != nil:
		return fmt.Sprintf("key %s of ConfigMap %s", s.ConfigMapKeyRef.Key, s.ConfigMapKeyRef.Name)
	case s.SecretKeyRef != nil:
		return fmt.Sprintf("key %s of Secret %s", s.SecretKeyRef.Key, s.SecretKeyRef.Name)
	}
	return "of another source"
}

// optionAsProgram finds a container whose command begins with an option: command stands in place of
// the image's program, args in place of its arguments.
func optionAsProgram(c *Cluster, o metav1.Object, self Object) []Finding {
	if metav1.GetControllerOf(o) != nil {
		return nil
	}
	return eachContainer(o, self, func(x place) []Finding {
		if len(x.c.Command) == 0 || !strings.HasPrefix(x.c.Command[0], "-") {
			return nil
		}
		f := Finding{Code: "OptionAsProgram", Severity: Threat, Stage: StageRun, Object: self,
			Field: x.at + ".command[0]", Value: x.c.Command[0], Want: "args", Message: fmt.Sprintf("The command of "+
				"container %s of %s %s begins with %s, an option: command replaces the program of the image, so "+
				"that a program of this name is looked for. Options for the image's own program belong into args.",
				x.c.Name, self.Kind, self.Name, x.c.Command[0])}
		args := slices.Concat(x.c.Command, x.c.Args)
		var words []string
		for _, a := range args {
			words = append(words, jsonText(a))
		}
		f.Remedies = []Remedy{{Say: "write them as args", Run: c.patchCommand(self, fmt.Sprintf(
			`[{"op":"remove","path":%s},{"op":"add","path":%s,"value":[%s]}]`, jsonText(pointer(x.at+".command")),
			jsonText(pointer(x.at+".args")), strings.Join(words, ",")))}}
		return []Finding{f}
	})
}
