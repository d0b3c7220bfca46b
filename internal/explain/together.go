package explain

import (
	"regexp"
	"slices"
	"strings"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// independent are codes of findings about a field that names what is not there: each hinders its
// object whatever else is mended.
var independent = []string{"ReferenceMissing", "KeyMissing", "SubPathMissing", "NodeLabelMissing", "ErrImagePull",
	"ImagePullBackOff", "InvalidImageName"}

// mostTogether bounds the troubles that one remedy mends.
const mostTogether = 4

// repairTogether puts a remedy first that mends every field of an object that names what is not
// there, where there are several: one of them alone does not let it start. None where one of them
// has no command.
func repairTogether(a *Answer) {
	var says, runs []string
	seen := map[string]bool{}
	var of finding.Object
	for _, f := range a.Findings {
		at := f.Object.String() + " " + f.Field
		if f.Severity != finding.Broken || !slices.Contains(independent, f.Code) || seen[at] ||
			f.Code == "NodeLabelMissing" && !strings.Contains(f.Field, "nodeSelector") {
			continue
		}
		seen[at] = true
		i := slices.IndexFunc(f.Remedies, func(r finding.Remedy) bool { return len(r.Run) > 0 && r.See == nil })
		if i < 0 || len(says) > 0 && f.Object != of || len(says) == mostTogether {
			return
		}
		of = f.Object
		says, runs = append(says, f.Remedies[i].Say), append(runs, f.Remedies[i].Run...)
	}
	if len(says) > 1 {
		a.Fixes = append([]Fix{{Description: "mend all of it: " + strings.Join(says, "; "), Run: runs}}, a.Fixes...)
	}
}

// variableReference is a reference to a variable, as a container's command and variables have them.
var variableReference = regexp.MustCompile(`\$\([A-Za-z_][A-Za-z0-9_.-]*\)`)

// whereItStands says, with a space before it, which variable of a container has a reference that
// was not replaced; empty where none has.
func whereItStands(c container, host string) string {
	ref := variableReference.FindString(host)
	for _, e := range c.spec.Env {
		if ref != "" && strings.Contains(e.Value, ref) {
			return " It stands in the value of variable " + e.Name + "; variables are replaced in the order of the " +
				"list."
		}
	}
	return ""
}
