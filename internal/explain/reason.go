package explain

import (
	"maps"
	"slices"
	"strings"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// withReasonFirst lets the reason of a container's end, which the cause of the answer tells, stand
// for both: what forbade it something, or what its Pod was evicted for. The numbers of the end are
// the reason's.
func withReasonFirst(a Answer) Answer {
	if len(a.Findings) < 2 || a.Findings[0].Code != "ContainerExited" {
		return a
	}
	i := slices.IndexFunc(a.Findings, func(f finding.Finding) bool {
		return f.Severity == finding.Broken && (f.Code == "Restricted" && f.Message != "" &&
			strings.Contains(a.Cause, f.Message) || f.Code == "Evicted" && strings.Contains(a.State, "Evicted"))
	})
	if i < 0 {
		return a
	}
	end, reason := a.Findings[0], a.Findings[i]
	numbers := maps.Clone(end.Numbers)
	maps.Copy(numbers, reason.Numbers)
	reason.Numbers = numbers
	a.Findings = slices.Concat([]finding.Finding{reason}, a.Findings[1:i], a.Findings[i+1:])
	return a
}

// leastQuoted is how long words are that are told twice.
const leastQuoted = 20

// saidAlready reports whether a text quotes what a finding says of its object, after its first
// colon.
func saidAlready(f finding.Finding, text string) bool {
	_, rest, ok := strings.Cut(f.Message, ": ")
	rest = strings.TrimSuffix(rest, ".")
	return ok && len(rest) >= leastQuoted && strings.Contains(text, rest)
}
