package why

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/explain/phrase"
)

// isKubectlMessage tells a text of kubectl describe from the name of an object: names have no
// spaces, and reasons no slash, no dash and capital letters.
func isKubectlMessage(arg string) bool {
	return strings.Contains(arg, " ") || !strings.ContainsAny(arg, "/-.") && strings.ToLower(arg) != arg
}

// explainMessage says what a text means, without asking a cluster.
func explainMessage(e *cli.Inspector, text string) error {
	list := phrase.Lookup(text)
	if len(list) == 0 {
		return cli.WithFix(fmt.Errorf("nothing is known of the phrase %q", text),
			"ask about the object it was said of: gantry why pod/NAME")
	}
	switch e.Output {
	case "", "text":
		return phrase.Write(e.Out, list)
	case "json":
		return cli.WriteJSON(e.Out, list)
	case "yaml":
		raw, err := yaml.Marshal(list)
		if err == nil {
			_, err = fmt.Fprintf(e.Out, "---\n%s", raw)
		}
		return err
	}
	return checkOutput(e)
}
