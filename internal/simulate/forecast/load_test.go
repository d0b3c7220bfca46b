package forecast

import (
	"strings"
	"testing"
	"time"
)

// loaded foretells that half as much load again makes three Pods five.
func loaded() *Forecast {
	return &Forecast{Format: Format, Verb: "load", Target: []string{"deployment/web=+50%"}, At: made,
		Outcome: Outcome{Done: true, Took: 18 * time.Second, Fastest: 18 * time.Second, Median: 18 * time.Second,
			P99: 18 * time.Second, Until: time.Hour},
		Pods: []Pod{{Namespace: "d", Name: "x", Owner: "deployment/web", Node: "a", Created: at(15 * time.Second),
			Ready: at(18 * time.Second)}, {Namespace: "d", Name: "y", Owner: "deployment/web", Node: "b",
			Created: at(15 * time.Second), Ready: at(18 * time.Second)}},
		Loads: []Load{{Namespace: "d", Object: "deployment/web", CPUBefore: 1500, CPU: 2250, CPUTaken: 2250,
			PodsBefore: 3, Pods: 5, Ready: 5}}}
}

// webs are ready Pods of the Deployment: some that were there before, and some that came.
func webs(old int, cpu int64, nodes ...string) []Seen {
	var out []Seen
	for i := range old + len(nodes) {
		p := Seen{Namespace: "d", Owner: "deployment/web", Node: "a", Created: made.Add(-time.Hour),
			Ready: made.Add(-time.Hour), CPU: cpu, Measured: true, Name: strings.Repeat("w", i+1)}
		if i >= old {
			p.Node, p.Created, p.Ready = nodes[i-old], made.Add(time.Minute), made.Add(time.Minute+3*time.Second)
		}
		out = append(out, p)
	}
	return out
}

// row: TOO-06
// A forecast of a load counts when the Pods take about what was asked about. Then it is compared
// how many Pods there are, where and how fast they came.
func TestScoreOfALoad(t *testing.T) {
	f, now := loaded(), made.Add(5*time.Minute)
	for _, c := range []struct {
		what  string
		there []Seen
		want  Score
		says  string
	}{
		{"the load did not come", webs(3, 500), Score{}, "it has not been done yet"},
		{"it came, the autoscaler is at work", webs(3, 750), Score{Happened: true},
			"has 3 Pods (3 ready), foretold 5 (5 ready); they take 2250m of cores and 0, foretold 2250m"},
		{"as foretold", webs(3, 450, "b", "a"), Score{Happened: true, Placed: 2, WithinSpread: true, whole: true},
			"has 5 Pods (5 ready), foretold 5 (5 ready)"},
		{"on other nodes", webs(3, 450, "c", "a"), Score{Happened: true, Placed: 1, WithinSpread: true, whole: true},
			"1 of 2 came to where they were foretold"},
		{"more Pods than foretold", webs(3, 375, "b", "a", "a"), Score{Happened: true, Placed: 2, WithinSpread: true},
			"has 6 Pods (6 ready), foretold 5 (5 ready)"},
		{"four times the load", webs(3, 2000), Score{}, "it has not been done yet"},
	} {
		s := Compare(f, c.there, now)
		if s.Happened != c.want.Happened || s.Placed != c.want.Placed || s.WithinSpread != c.want.WithinSpread ||
			s.whole != c.want.whole || !strings.Contains(s.Line(), c.says) {
			t.Errorf("%s: got %+v, %q, want %+v, %q", c.what, s, s.Line(), c.want, c.says)
		}
	}
	if s := Compare(f, webs(3, 500), made.Add(2*time.Hour)); !s.Expired {
		t.Errorf("after the horizon: got %+v, want it expired", s)
	}
}

// Where nothing tells what Pods take, their number does, if it was to change.
func TestScoreOfALoadWithoutFigures(t *testing.T) {
	f, five := loaded(), webs(3, 0, "a", "b")
	for i := range five {
		five[i].Measured = false
	}
	s := Compare(f, five, made.Add(5*time.Minute))
	if !s.Happened || s.Loads[0].Came != nil || !strings.Contains(s.Line(), "nothing tells what they take") {
		t.Errorf("five Pods: got %+v, %q, want that it happened, by their number", s, s.Line())
	}
	if s = Compare(f, five[:3], made.Add(5*time.Minute)); s.Happened {
		t.Errorf("three Pods: got %+v, want that it has not happened", s)
	}
	f.Loads[0].Pods, f.Loads[0].Ready, f.Pods = 3, 3, nil
	if s = Compare(f, five[:3], made.Add(5*time.Minute)); s.Happened {
		t.Errorf("three Pods of three: got %+v, want nothing, as nothing tells that the load came", s)
	}
}

// Less load has Pods leave: those that were foretold are counted, and no time is.
func TestScoreOfLessLoad(t *testing.T) {
	f := loaded()
	f.Pods = []Pod{{Namespace: "d", Name: "w", Owner: "deployment/web", Node: "a", Leaves: at(5 * time.Minute),
		Gone: at(5*time.Minute + time.Second)}}
	f.Loads[0].CPU, f.Loads[0].CPUTaken, f.Loads[0].Pods, f.Loads[0].Ready = 900, 900, 2, 2
	s := Compare(f, webs(3, 300)[1:], made.Add(10*time.Minute))
	if !s.Happened || s.Left != 1 || !s.whole || !strings.Contains(s.Line(), "no time is compared") {
		t.Errorf("got %+v, %q, want the one Pod gone and no time", s, s.Line())
	}
	if s = Compare(f, webs(3, 300), made.Add(time.Minute)); !s.Happened || s.Left != 0 || s.whole {
		t.Errorf("before the autoscaler: got %+v, want that the load came and all Pods are there", s)
	}
}
