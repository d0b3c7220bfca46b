package finding

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
)

// operators are words by which a shell joins or redirects commands.
var operators = []string{"&&", "||", "|", ">", ">>", "2>&1"}

// ownParameter matches a script's use of the words behind it.
var ownParameter = regexp.MustCompile(`\$[@*#0-9]|\$\{[@*#0-9]|\bshift\b`)

// behindScript finds words behind the script of a shell's -c that is one word, which does not read
// them: they are its parameters, not part of it.
func (c *Cluster) behindScript(x place, words []string, well bool) (Finding, bool) {
	at := slices.Index(words, "-c")
	if len(x.c.Command) == 0 || !shells[path.Base(words[0])] || at < 0 || at+2 >= len(words) ||
		len(strings.Fields(words[at+1])) != 1 || ownParameter.MatchString(words[at+1]) {
		return Finding{}, false
	}
	field := func(i int) string {
		if i >= len(x.c.Command) {
			return fmt.Sprintf("args[%d]", i-len(x.c.Command))
		}
		return fmt.Sprintf("command[%d]", i)
	}
	whole := strings.Join(words[at+1:], " ")
	f := Finding{Code: "ShellWord", Severity: Threat, Stage: StageRun, Object: x.self, Field: x.at + "." + field(at+1),
		Value: words[at+1], Want: whole, Message: fmt.Sprintf("The shell of container %s runs %q alone (%s): what "+
			"stands behind it, %q, are the script's parameters, and it reads none.", x.c.Name, words[at+1], field(at+1),
			strings.Join(words[at+2:], " "))}
	if well {
		f.Severity = Note
	}
	raw, err := json.Marshal(append(slices.Clone(words[:at+1]), whole))
	if err != nil {
		return f, true
	}
	ops := fmt.Sprintf(`[{"op":"add","path":%s,"value":%s}`, jsonText(pointer(x.at+".command")), raw)
	if len(x.c.Args) > 0 {
		ops += fmt.Sprintf(`,{"op":"remove","path":%s}`, jsonText(pointer(x.at+".args")))
	}
	f.Remedies = []Remedy{{Say: "write the script as one word", Run: c.patchCommand(x.self, ops+"]")}}
	return f, true
}

// inProbes finds such words in the commands of a container's probes, which no shell reads either.
func (c *Cluster) inProbes(x place) []Finding {
	var out []Finding
	for _, p := range probesOf(x.c) {
		if p.probe.Exec == nil {
			continue
		}
		words := p.probe.Exec.Command
		i := slices.IndexFunc(words, func(w string) bool { return slices.Contains(operators, w) })
		if i < 1 || shells[path.Base(words[0])] {
			continue
		}
		at := fmt.Sprintf("%s.%s.exec.command", x.at, p.field)
		f := Finding{Code: "ShellWord", Severity: Threat, Stage: StageRun, Object: x.self,
			Field: fmt.Sprintf("%s[%d]", at, i), Value: words[i], Want: "sh -c", Message: fmt.Sprintf("The %s of "+
				"container %s has the word %s, which only a shell understands, and none reads it: %s gets it, and "+
				"what follows, as words of its own.", p.field, x.c.Name, words[i], words[0])}
		f.Remedies = []Remedy{{Say: "let a shell read it, if the image has one", Run: c.patchCommand(x.self,
			fmt.Sprintf(`[{"op":"replace","path":%s,"value":["sh","-c",%s]}]`, jsonText(pointer(at)),
				jsonText(strings.Join(words, " "))))}}
		out = append(out, f)
	}
	return out
}

// shellWords finds words of a command line that only a shell understands, where none reads them:
// the program gets them as words.
func shellWords(c *Cluster, o metav1.Object, self Object) []Finding {
	well := c.anyReady(o)
	return eachContainer(o, self, func(x place) []Finding {
		words := append(slices.Clone(x.c.Command), x.c.Args...)
		if found := c.inProbes(x); len(found) > 0 {
			return found
		}
		if f, ok := c.behindScript(x, words, well); ok {
			return []Finding{f}
		}
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
