package forecast

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func at(d time.Duration) *time.Duration { return &d }

var made = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func drained() *Forecast {
	return &Forecast{Format: Format, Verb: "drain", Target: []string{"node/a"}, At: made,
		Outcome: Outcome{Done: true, Took: 4 * time.Second, Seeds: 1, Fastest: 4 * time.Second, P99: 4 * time.Second,
			Until: time.Hour},
		Pods: []Pod{
			{Namespace: "d", Name: "web-1", Owner: "deployment/web", Node: "a", Leaves: at(0), Gone: at(time.Second),
				Cause: "evicted"},
			{Namespace: "d", Name: "web-2", Owner: "deployment/web", Node: "b", Created: at(0), Scheduled: at(0),
				Ready: at(3 * time.Second), Replaces: "web-1"}},
		Capacity: []Capacity{{Total: 2, Ready: 2, Desired: 2}, {At: time.Second, Total: 2, Ready: 1, Desired: 2}},
		Blocked:  []Blocked{{Pod: "d/web-1", Budget: "web", Message: "needs 2", Until: at(5 * time.Second)}},
		Pending:  []Pending{{Pod: "d/web-<3>", Cause: "no room", Fixes: []string{"add a node"}}}}
}

// The text says what holds up, what moves where, and what would help.
func TestText(t *testing.T) {
	var b bytes.Buffer
	if err := drained().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"drain node/a: done after 4.0s", "d/web-1  a", "evicted", "d/web-2  b", "web-1\n",
		"d/web-1 from 0.0s until 5.0s: needs 2", "d/web-<3>: no room", "→ add a node"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, b.String())
		}
	}
}

// The picture is well-formed and has a bar for each stage of each Pod.
func TestSVG(t *testing.T) {
	var b bytes.Buffer
	f := drained()
	f.Pods[0].Name = "web-<1>"
	if err := f.WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	bars := 0
	for d := xml.NewDecoder(&b); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			bars++
		}
	}
	if bars != 5 { // ready and leaving; waiting, starting and ready
		t.Errorf("%d bars, want 5", bars)
	}
}

// A stored forecast is read back, and scored by what came.
func TestScore(t *testing.T) {
	dir := t.TempDir()
	if err := Store(dir, drained()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "half.json"), []byte(`{"format":`), 0o600); err != nil {
		t.Fatal(err)
	}
	all, notes, err := ReadAll(dir)
	if err != nil || len(all) != 1 || len(notes) != 1 || !strings.Contains(notes[0], "half.json is left out") {
		t.Fatalf("read %d, %v, notes %q", len(all), err, notes)
	}
	f := all[0].Forecast
	old := Seen{Namespace: "d", Name: "web-1", Owner: "deployment/web", Node: "a", Created: made.Add(-time.Hour)}
	fresh := Seen{Namespace: "d", Name: "web-x", Owner: "deployment/web", Node: "b", Created: made.Add(time.Minute),
		Ready: made.Add(time.Minute + 4*time.Second)}
	if s := Compare(f, []Seen{old}, made.Add(time.Minute)); s.Happened || s.Expired {
		t.Errorf("before: %+v", s)
	}
	if s := Compare(f, []Seen{old}, made.Add(2*time.Hour)); s.Happened || !s.Expired {
		t.Errorf("too late: %+v", s)
	}
	s := Compare(f, []Seen{fresh}, made.Add(2*time.Minute))
	if !s.Happened || s.Left != 1 || s.Placed != 1 || !s.InOrder || !s.WithinSpread || s.Took != 4*time.Second {
		t.Errorf("after: %+v", s)
	}
	fresh.Node, fresh.Ready = "c", fresh.Created.Add(time.Minute)
	if s := Compare(f, []Seen{fresh}, made.Add(2*time.Minute)); s.Placed != 0 || s.WithinSpread {
		t.Errorf("otherwise: %+v", s)
	}
}

// A score that is known as a whole is kept: what comes later to the same workload does not count.
func TestAScoreIsKept(t *testing.T) {
	dir := t.TempDir()
	if err := Store(dir, drained()); err != nil {
		t.Fatal(err)
	}
	scoreOf := func(there ...Seen) Score {
		all, _, err := ReadAll(dir)
		if err != nil || len(all) != 1 {
			t.Fatalf("read %d, %v, want no error, 1", len(all), err)
		}
		s := Compare(all[0].Forecast, there, made.Add(10*time.Minute))
		if err := all[0].Keep(s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	fresh := Seen{Namespace: "d", Name: "web-x", Owner: "deployment/web", Node: "b", Created: made.Add(time.Minute)}
	if s := scoreOf(fresh); !s.Happened || s.Took != 0 {
		t.Errorf("not ready: %+v", s)
	}
	fresh.Ready = made.Add(time.Minute + 4*time.Second)
	later := Seen{Namespace: "d", Name: "web-y", Owner: "deployment/web", Node: "c", Created: made.Add(5 * time.Minute),
		Ready: made.Add(6 * time.Minute)}
	if s := scoreOf(fresh, later); s.Took != 4*time.Second || s.Placed != 1 {
		t.Errorf("with a later Pod: got %+v, want Took %v and Placed 1", s, 4*time.Second)
	}
	if s := scoreOf(later); s.Took != 4*time.Second || s.Placed != 1 || !s.WithinSpread {
		t.Errorf("with the later Pod alone: got %+v, want Took %v and Placed 1 and WithinSpread true", s,
			4*time.Second)
	}
}

// What a lost node had leaves and is not gone, and the time counts from the first Pod that is made.
func TestScoreOfALoss(t *testing.T) {
	f := &Forecast{Format: Format, Verb: "lose", At: made, Outcome: Outcome{Done: true, Until: time.Hour,
		Took: time.Minute, Fastest: time.Minute, Median: time.Minute, P99: time.Minute},
		Pods: []Pod{{Namespace: "d", Name: "a", Owner: "deployment/web", Node: "x", Leaves: at(56 * time.Second)},
			{Namespace: "d", Name: "b", Owner: "deployment/web", Node: "y", Created: at(56 * time.Second),
				Ready: at(time.Minute)}}}
	old := Seen{Namespace: "d", Name: "a", Owner: "deployment/web", Node: "x", Created: made.Add(-time.Hour)}
	fresh := Seen{Namespace: "d", Name: "c", Owner: "deployment/web", Node: "y", Created: made.Add(2 * time.Minute),
		Ready: made.Add(2*time.Minute + 5*time.Second)}
	if s := Compare(f, []Seen{old, fresh}, made.Add(3*time.Minute)); s.Left != 0 {
		t.Errorf("the old Pod stays: got %+v, want Left 0", s)
	}
	old.Leaving = true
	s := Compare(f, []Seen{old, fresh}, made.Add(3*time.Minute))
	if s.Left != 1 || s.Placed != 1 || s.Took != 5*time.Second || s.Foretold != 4*time.Second || !s.WithinSpread {
		t.Errorf("the old Pod leaves: %+v", s)
	}
}

// Of what was foretold not to be done no time is compared, but whether all are ready.
func TestScoreOfWhatIsNotDone(t *testing.T) {
	f := &Forecast{Format: Format, Verb: "apply", At: made, Outcome: Outcome{Until: time.Hour, Took: time.Hour},
		Pods: []Pod{{Namespace: "d", Name: "one", Node: "a", Created: at(0), Ready: at(time.Second)},
			{Namespace: "d", Name: "two", Created: at(0)}}}
	one := Seen{Namespace: "d", Name: "one", Node: "a", Created: made.Add(time.Minute), Ready: made.Add(time.Minute)}
	two := Seen{Namespace: "d", Name: "two", Created: made.Add(time.Minute)}
	s := Compare(f, []Seen{one, two}, made.Add(2*time.Minute))
	if s.Placed != 2 || !s.WithinSpread || !strings.HasSuffix(s.Line(), "; not all are ready, as foretold") {
		t.Errorf("as foretold: got %+v %q, want Placed 2 and WithinSpread true and it to end with %q", s, s.Line(),
			"; not all are ready, as foretold")
	}
	two.Ready = made.Add(time.Minute)
	s = Compare(f, []Seen{one, two}, made.Add(2*time.Minute))
	if s.WithinSpread || !strings.HasSuffix(s.Line(), "; all are ready, which was not foretold") {
		t.Errorf("otherwise: %+v %q", s, s.Line())
	}
}

// What lacks the same is told together, and runs of which none was done have no times.
func TestTextOfWhatIsPending(t *testing.T) {
	f := &Forecast{Verb: "scale", Target: []string{"deployment/web"}, Outcome: Outcome{Seeds: 20, Undone: 20,
		Until: time.Hour}, Pending: []Pending{{Pod: "d/a", Cause: "no room", Fixes: []string{"add a node"}},
		{Pod: "d/b", Cause: "no claim"}, {Pod: "d/c", Cause: "no room", Fixes: []string{"add a node"}},
		{Pod: "d/e", Cause: "no room", Fixes: []string{"add a node"}},
		{Pod: "d/f", Cause: "no room", Fixes: []string{"add a node"}}}}
	var b strings.Builder
	if err := f.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := "scale deployment/web: not done within 60:00.0; nor was it in any of 20 runs\n" +
		"no Pod comes, goes or moves\n\n" +
		"does not become ready:\n  d/a, d/c, d/e and 1 more: no room\n      → add a node\n  d/b: no claim\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// A Pod without controller counts by its own name.
func TestScoreOfPodWithoutController(t *testing.T) {
	f := &Forecast{Format: Format, Verb: "apply", At: made, Outcome: Outcome{Done: true, Until: time.Hour},
		Pods: []Pod{{Namespace: "d", Name: "one", Node: "a", Created: at(0), Ready: at(time.Second)}}}
	one := Seen{Namespace: "d", Name: "one", Node: "a", Created: made.Add(time.Minute), Ready: made.Add(time.Minute)}
	other := one
	other.Name = "other"
	if s := Compare(f, []Seen{other}, made.Add(2*time.Minute)); s.Happened {
		t.Errorf("another Pod: %+v", s)
	}
	if s := Compare(f, []Seen{other, one}, made.Add(2*time.Minute)); !s.Happened || s.Placed != 1 {
		t.Errorf("the Pod: got %+v, want Happened true and Placed 1", s)
	}
}

// A directory keeps the newest forecasts.
func TestStoreKeepsTheNewest(t *testing.T) {
	dir := t.TempDir()
	for i := range mostKept {
		name := made.Add(time.Duration(i)*time.Second).Format("20060102T150405Z") + "-drain-1.json"
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := drained()
	f.At = made.Add(time.Hour)
	if err := Store(dir, f); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != mostKept || !strings.HasPrefix(files[0].Name(), "20260102T030406Z") {
		t.Errorf("%d files, error %v, want the newest %d", len(files), err, mostKept)
	}
}
