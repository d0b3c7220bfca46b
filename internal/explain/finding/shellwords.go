package finding

import (
	"fmt"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
)

// operators are words by which a shell joins or redirects commands.
var operators = []string{"&&", "||", "|", ">", ">>", "2>&1"}

// shellWords finds words of a command line that only a shell understands, where none reads them:
// the program gets them as words.
func shellWords(c *Cluster, o metav1.Object, self Object) []Finding {
	well := c.anyReady(o)
	return eachContainer(o, self, func(x place) []Finding {
		words := append(slices.Clone(x.c.Command), x.c.Args...)
		if len(x.c.Command) == 0 || shells[path.Base(words[0])] || slices.Contains(words, "-c") {
			return nil // the program is not known, or reads a script
		}
		i := slices.IndexFunc(words, func(w string) bool { return slices.Contains(operators, w) })
		if i < 1 {
			return nil
		}
		field := fmt.Sprintf("command[%d]", i)
		if i >= len(x.c.Command) {
			field = fmt.Sprintf("args[%d]", i-len(x.c.Command))
		}
		var script []string
		for _, w := range words {
			if !slices.Contains(operators, w) {
				w = shellquote.Word(w)
			}
			script = append(script, w)
		}
		line := strings.Join(script, " ")
		f := Finding{Code: "ShellWord", Severity: Threat, Stage: StageRun, Object: self, Field: x.at + "." + field,
			Value: words[i], Want: "sh -c", Message: fmt.Sprintf("%s of container %s is %s, which only a shell "+
				"understands, and none reads it: %s gets it, and what follows, as words of its own.", field, x.c.Name,
				words[i], words[0])}
		if well {
			f.Severity = Note
		}
		ops := fmt.Sprintf(`[{"op":"add","path":%s,"value":["sh","-c",%s]}`, jsonText(pointer(x.at+".command")),
			jsonText(line))
		if len(x.c.Args) > 0 {
			ops += fmt.Sprintf(`,{"op":"remove","path":%s}`, jsonText(pointer(x.at+".args")))
		}
		f.Remedies = []Remedy{{Say: "let a shell read it: command [sh, -c, ...], if the image has one",
			Run: c.patchCommand(self, ops+"]")}}
		return []Finding{f}
	})
}
