package probe

import (
	"time"

	"github.com/gantry-project/gantry/internal/journal"
)

// Results is what a probe's answers have added up to. The zero value of one kind is NewResults.
type Results struct {
	Health Health
	streak Streak
	output string // of the last failure that became a fact
	late   bool   // the last question was late, and a fact says so
}

// NewResults is what a probe begins with before its first answer.
func NewResults(k Kind) Results { return Results{Health: InitialHealth(k)} }

// Answer is one answer and how it came.
type Answer struct {
	Outcome
	Took time.Duration // from the question to the answer
	// from when the question was due until it was put: the node's fault, never held against a
	// container
	Late time.Duration
}

// Add counts an answer. changed: the result is another than before. The fact is what the journal
// is to record; it is nil when the answer neither changes nor threatens the result, nor begins a
// row of successes that has to be longer, nor says something new, nor came late for the first time.
func (r Results) Add(k Key, a Answer, s Spec) (next Results, changed bool, fact *journal.Probed) {
	var health Health
	if r.streak, health = r.streak.Add(a.Outcome, s); health != Pending && health != r.Health {
		r.Health, changed = health, true
	}
	text := a.Output
	if a.Err != nil {
		text = a.Err.Error()
	}
	f := journal.Probed{
		Container: k.Container, Probe: string(k.Kind), Result: a.String(), Message: text,
		Count: r.streak.Length, Threshold: r.streak.Threshold(s), Took: journal.Took(a.Took),
		Connection: a.Connection,
	}
	news := changed
	if f.Result == "success" {
		// a row of successes that is not long enough yet begins
		news = news || r.streak.Length == 1 && f.Threshold > 1
		r.output = ""
		if a.Result == Success {
			f.Message = ""
		}
	} else {
		news = news || text != r.output || a.Err == nil && r.streak.Length <= s.FailureThreshold
		r.output = text
	}
	late := IsLate(a.Late, s)
	if late && !r.late {
		f.Late, news = journal.Took(a.Late), true
	}
	r.late = late
	if !news {
		return r, changed, nil
	}
	return r, changed, &f
}

// Decided tells whether there is nothing more to learn from the probe: startup succeeded, or the
// container will be restarted, and its successor has a worker of its own.
func (r Results) Decided(k Kind) bool {
	return k == Startup && r.Health == Healthy || k != Readiness && r.Health == Unhealthy
}
