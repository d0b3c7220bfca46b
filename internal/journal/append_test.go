package journal

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/reason"
)

// TestRefusalsOfOlderJournalsAreRead: a stored refusal with a renamed code is read by its new name.
func TestRefusalsOfOlderJournalsAreRead(t *testing.T) {
	var got NodeRefusal
	stored := `{"node":"n1","plugin":"InterPodAffinity","code":"Unschedulable","reason":"PodMinded","messages":null}`
	if err := json.Unmarshal([]byte(stored), &got); err != nil || got.Reason != reason.AntiAffinity {
		t.Errorf("got reason %q (error %v), want %q", got.Reason, err, reason.AntiAffinity)
	}
}

// TestAppendedEntriesAreAsMarshalled: what is shipped reads as if it had been written by
// reflection.
func TestAppendedEntriesAreAsMarshalled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word, number := rapid.OneOf(rapid.StringMatching(`[a-z0-9.-]{0,12}`), rapid.String()),
			rapid.Int64Range(-5, 1<<40)
		count := rapid.IntRange(0, 3)
		scores := rapid.Custom(func(t *rapid.T) NodeScore {
			part := rapid.Custom(func(t *rapid.T) PluginScore {
				return PluginScore{word.Draw(t, "plugin"), number.Draw(t, "raw"), number.Draw(t, "norm"),
					number.Draw(t, "weight"), number.Draw(t, "weighted")}
			})
			return NodeScore{word.Draw(t, "node"), number.Draw(t, "total"), rapid.SliceOfN(part, 0, 3).Draw(t, "parts")}
		})
		f := Ruled{Attempt: count.Draw(t, "attempt"), Profile: word.Draw(t, "profile"), Nodes: count.Draw(t, "nodes"),
			Sample: Sample{1, count.Draw(t, "left"), rapid.SliceOfN(word, 0, 2).Draw(t, "left out")}, Feasible: 2,
			Winner:   word.Draw(t, "winner"),
			RunnerUp: word.Draw(t, "next"), Ties: count.Draw(t, "ties"), Message: word.Draw(t, "message"),
			By: word.Draw(t, "by"), Scores: rapid.SliceOfN(scores, 0, 3).Draw(t, "scores"),
			Points: map[string]Took{}, Took: Took(number.Draw(t, "took"))}
		for range count.Draw(t, "points") {
			f.Points[word.Draw(t, "point")] = Took(number.Draw(t, "took there"))
		}
		short := rapid.Custom(func(t *rapid.T) Shortage {
			return Shortage{word.Draw(t, "resource"), number.Draw(t, "asked"), number.Draw(t, "used"),
				number.Draw(t, "available")}
		})
		refusal := rapid.Custom(func(t *rapid.T) NodeRefusal {
			n := NodeRefusal{Node: word.Draw(t, "node"), Plugin: word.Draw(t, "plugin"), Code: word.Draw(t, "code"),
				Reason: reason.Code(word.Draw(t, "reason")),
				Detail: word.Draw(t, "detail"), Fix: word.Draw(t, "fix"), Shortages: rapid.SliceOfN(short, 0, 2).Draw(t,
					"short")}
			if rapid.Bool().Draw(t, "says") {
				n.Messages = rapid.SliceOfN(word, 0, 2).Draw(t, "messages")
			}
			return n
		})
		if rapid.Bool().Draw(t, "refused") {
			f.Refusals = rapid.SliceOfN(refusal, 0, 3).Draw(t, "refusals")
			f.Counted = []CountedRefusal{{Plugin: "p", Nodes: 3}}
		}
		e := Entry{Seq: 3, At: time.Unix(number.Draw(t, "at"), number.Draw(t, "ns")).UTC(),
			Ref: Ref{Kind: word.Draw(t, "kind"), Namespace: word.Draw(t, "ns"), Name: word.Draw(t, "name"),
				UID: word.Draw(t, "uid")},
			By: "scheduler", Node: word.Draw(t, "on"), Fact: f}
		queued := Queued{Queue: word.Draw(t, "queue"), Cause: word.Draw(t, "cause"), Attempt: count.Draw(t, "attempts"),
			By: word.Draw(t, "by"), Object: word.Draw(t, "object"), Ignored: rapid.Bool().Draw(t, "ignored")}
		if rapid.Bool().Draw(t, "backs off") {
			queued.Until = e.At
		}
		for _, e.Fact = range []Fact{f, queued, Bound{Node: word.Draw(t, "node"), Next: word.Draw(t, "next"),
			Lead: number.Draw(t, "lead"), Took: f.Took}} {
			want, err := json.Marshal(e)
			if err != nil {
				return // years beyond 9999
			}
			if got, err := e.AppendJSON([]byte("x")); err != nil || string(got) != "x"+string(want) {
				t.Fatalf("got  %s, %v\nwant x%s", got, err, want)
			}
		}
	})
}
