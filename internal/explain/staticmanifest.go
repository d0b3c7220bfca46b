package explain

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// manifestField is the field that the words about a manifest begin with, and its value.
var manifestField = regexp.MustCompile(`\b((?:metadata|spec)(?:\.[A-Za-z]+|\[[^\]]*\])*): ` +
	`(?:Invalid value|Required value|Unsupported value|Forbidden|Not found|Duplicate value|Too long)` +
	`(?:: ("[^"]*"|[^:\s]+):)?`)

// manifestWords are the file, and what is wrong with it, of a kubelet's words about a manifest.
func manifestWords(message string) (place, why string) {
	place, why, found := strings.Cut(message, ": ")
	if !found {
		return "of the node", message
	}
	return place, strings.TrimSuffix(why, ".")
}

// manifestRefused explains a static Pod that is not there because its kubelet cannot use its
// manifest.
func manifestRefused(in In) *Answer {
	if in.Pod != nil || len(in.Entries) == 0 {
		return nil
	}
	refused, at, ok := newest[journal.Refused](in, func(f journal.Refused) bool {
		return f.Reason == journal.StaticPodInvalid
	})
	if _, later, again := newest[journal.Accepted](in, nil); !ok || again && later.After(at) {
		return nil
	}
	place, why := manifestWords(refused.Message)
	a := &Answer{State: "refused", Since: at, Cause: fmt.Sprintf("There is no such Pod because its kubelet cannot use "+
		"the manifest %s of this static Pod: %s.", place, why),
		Next: "the kubelet reads the file again when it changes, and every fileCheckFrequency",
		Fixes: textFixes(fmt.Sprintf("mend what the text names in %s on the node; the kubelet sees the change by "+
			"itself", place))}
	f := finding.Finding{Code: "ManifestInvalid", Stage: finding.StageCreation, Object: in.object(), Field: "manifest",
		Value: place, Message: a.Cause, Remedies: asRemedies(a.Fixes)}
	if m := manifestField.FindStringSubmatch(why); m != nil {
		f.Field, f.Value = m[1], strings.Trim(m[2], `"`)
	}
	a.Findings = append(a.Findings, f)
	return a
}
