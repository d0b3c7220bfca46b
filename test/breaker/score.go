package breaker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/explain/finding"
)

// truth is one thing that is wrong, as the breaker made it.
type truth struct {
	kinds string // kinds of the object to blame, any of them: "Deployment Pod"
	field string // part of the field's path, or of several with | between
	value string // of that field, or of several with | between; empty: not scored
	// what mends it, or several with | between: one must stand in a remedy or as the value wanted;
	// empty: not scored
	want string
	// each, or one of several with | between, must stand in the finding's numbers, value or message
	numbers []string
	lead    string // must stand in the answer's own sentence; empty: not scored
}

// points are what an answer got, of four, and what was missed.
type points struct {
	cause, facts, claim, remedy bool
	missed                      []string
	words, events               bool     // the text for people, and status and events, tell it; no points
	elsewhere                   []string // other questions about the break that do not name the cause
}

func (p points) sum() int {
	n := 0
	for _, b := range []bool{p.cause, p.facts, p.claim, p.remedy} {
		if b {
			n++
		}
	}
	return n
}

// score holds an answer against the truth: each truth needs a finding that blames its object and
// field with its value; without truth nothing may be called broken.
func score(a explain.Answer, all []truth) points {
	p := points{cause: true, facts: true, claim: true, remedy: true}
	miss := func(which *bool, format string, args ...any) {
		*which = false
		p.missed = append(p.missed, fmt.Sprintf(format, args...))
	}
	blamed := map[int]bool{}
	for _, t := range all {
		i := find(a.Findings, t)
		if i < 0 {
			miss(&p.cause, "no finding blames %s of %s with %q", t.field, t.kinds, t.value)
			p.facts, p.remedy = false, false
			continue
		}
		f := a.Findings[i]
		blamed[i] = true
		if !strings.Contains(a.Cause, t.lead) {
			miss(&p.cause, "the cause does not tell %q: %s", t.lead, a.Cause)
		}
		for _, n := range t.numbers {
			if !tells(f, n) {
				miss(&p.facts, "%s does not tell %s: %v", f.Code, n, f.Numbers)
			}
		}
		if t.want != "" && !slices.ContainsFunc(strings.Split(t.want, "|"), func(want string) bool {
			return mends(a, f, want)
		}) {
			miss(&p.remedy, "nothing proposes %s", t.want)
		}
	}
	for i, f := range a.Findings {
		threat := len(all) == 0 && f.Severity == finding.Threat && f.Code != "Warning" // of the fake kubelet
		if (f.Severity == finding.Broken || threat) && !blamed[i] &&
			!about(f, all) {
			miss(&p.claim, "claims %s of %s: %s", f.Code, f.Object, f.Message)
		}
	}
	text := a.State + " " + a.Cause
	if len(all) > 0 && strings.Contains(text, "nothing blocks it") {
		miss(&p.claim, "says that nothing blocks it")
	}
	return p
}

// find returns the finding that tells a truth, with its numbers if there is one; -1 when there is
// none.
func find(list []finding.Finding, t truth) int {
	best, most := -1, -1
	for i, f := range list {
		if !slices.Contains(strings.Fields(t.kinds), f.Object.Kind) || !inField(f.Field, t.field) ||
			t.value != "" && !inField(f.Value, t.value) {
			continue
		}
		told := 0
		for _, n := range t.numbers {
			if tells(f, n) {
				told++
			}
		}
		if told > most {
			best, most = i, told
		}
	}
	return best
}

func inField(field, parts string) bool {
	for part := range strings.SplitSeq(parts, "|") {
		if strings.Contains(field, part) {
			return true
		}
	}
	return false
}

// about tells whether a finding follows from a truth: of the same kinds and a field or value of it,
// or of what the broken object owns.
func about(f finding.Finding, all []truth) bool {
	return slices.ContainsFunc(all, func(t truth) bool {
		follows := []string{"PodsRefused", "NodeResourcesFit", "NodeAffinity", "InterPodAffinity", "VolumeBinding",
			"TaintToleration", "NodeUnschedulable", "NoReadyPods", "ContainerExited", "ProbeFails", "JobFailed",
			"BackoffLimitExceeded", "CreateContainerConfigError", "NoVolumeFits", "FailedCreate", "PodTopologySpread",
			"DynamicResources", "KilledByProbe", "ControllersIdle", // nobody works on autoscalers here
			"ErrImagePull", "ErrImageNeverPull", "NoNodeCanHold", "NamespaceTerminating"}
		return strings.HasPrefix(f.Field, "status.") || inField(f.Field,
			t.field) && (t.value == "" || inField(f.Value+f.Message, t.value)) ||
			slices.Contains(follows, f.Code)
	})
}

// tells whether a finding has a number, or one of several with | between.
func tells(f finding.Finding, n string) bool {
	return slices.ContainsFunc(strings.Split(n, "|"), func(n string) bool { return tellsOne(f, n) })
}

func tellsOne(f finding.Finding, n string) bool {
	for _, v := range f.Numbers {
		if v == n {
			return true
		}
	}
	words := func(text, separators string) []string {
		out := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(separators, r) })
		for i := range out {
			out[i] = strings.TrimSuffix(out[i], ".") // a sentence's end
		}
		return out
	}
	return f.Value == n || f.Want == n || slices.Contains(words(f.Message, " ,;:()"), n) ||
		slices.Contains(words(fmt.Sprint(f.Message, " ", f.Object, " ", f.Related), " ,;()[]{}/'\""), n)
}

func mends(a explain.Answer, f finding.Finding, want string) bool {
	if f.Want == want {
		return true
	}
	for _, r := range f.Remedies {
		if strings.Contains(r.Say+strings.Join(r.Run, " "), want) {
			return true
		}
	}
	for _, r := range a.Fixes {
		if strings.Contains(r.Description+strings.Join(r.Run, " "), want) {
			return true
		}
	}
	return false
}
