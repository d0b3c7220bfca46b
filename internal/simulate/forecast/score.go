package forecast

import (
	"fmt"
	"slices"
	"time"
)

// Seen is a Pod as it is in the cluster when a forecast is scored.
type Seen struct {
	Namespace, Name, Owner, Node string
	Created, Ready               time.Time // Ready is zero for a Pod that is not
	Leaving                      bool      // its deletion was asked for
	CPU, Memory                  int64     // what it takes, thousandths of a core and bytes
	Measured                     bool      // CPU and Memory are known
}

func (s Seen) ownerOr() string { return ownerOr(s.Namespace, s.Owner, s.Name) }

// Score is how right a forecast was.
type Score struct {
	Verb     string `json:"verb"`
	Target   string `json:"target"`
	Happened bool   `json:"happened"` // the change was made within the horizon
	Expired  bool   `json:"expired"`  // it was not, and the horizon is over
	// Left counts the Pods that were to leave and that did, of Leaving: they are gone, or leaving
	// as long as was foretold
	Left    int `json:"left"`
	Leaving int `json:"leaving"`
	// Placed counts the Pods that came to a node where one of their owner was foretold, of Coming
	Placed       int           `json:"placed"`
	Coming       int           `json:"coming"`
	InOrder      bool          `json:"inOrder"`  // owners' Pods were made in the order foretold
	Took         time.Duration `json:"took"`     // nanoseconds, from the first Pod made until the last was ready
	Foretold     time.Duration `json:"foretold"` // the same, as foretold
	WithinSpread bool          `json:"withinSpread"`
	// Undone says that it was foretold not to be done within the horizon. Then no time is compared,
	// and WithinSpread says that some Pod that came is not ready.
	Undone bool        `json:"undone,omitempty"`
	Loads  []LoadScore `json:"loads,omitempty"` // of load: one for each workload

	whole bool // nothing of what was foretold is still to come
}

// spreadTolerance is by how much a time may miss the spread: statuses have whole seconds, and a
// person does not begin at once.
const spreadTolerance = 2 * time.Second

// Compare scores a forecast by the Pods that are there at now: of those that came the first ones,
// as many as were foretold. One that was scored once keeps its score, whatever comes later.
func Compare(f *Forecast, there []Seen, now time.Time) Score {
	if f.Scored != nil {
		return *f.Scored
	}
	s := Score{Verb: f.Verb, Target: fmt.Sprint(f.Target), InOrder: true, Undone: !f.Outcome.Done}
	owners := map[string]bool{}
	leaving, gone := map[string]bool{}, map[string]bool{}
	var foretold []Pod
	for _, p := range f.Pods {
		owners[p.ownerOr()] = true
		if p.Created == nil && p.Leaves != nil {
			leaving[p.Key()], gone[p.Key()] = true, p.Gone != nil
		}
		if p.Created != nil && p.Gone == nil {
			foretold = append(foretold, p)
		}
	}
	end := f.At.Add(f.Outcome.Until)
	var came []Seen
	for _, p := range there {
		if owners[p.ownerOr()] && p.Created.After(f.At) && !p.Created.After(end) {
			came = append(came, p)
		}
	}
	slices.SortStableFunc(came, func(a, b Seen) int { return a.Created.Compare(b.Created) })
	s.Leaving, s.Coming = len(leaving), len(foretold)
	s.Left = s.Leaving
	for _, p := range there {
		if key := p.Namespace + "/" + p.Name; leaving[key] && !p.Created.After(f.At) && (gone[key] || !p.Leaving) {
			s.Left--
		}
	}
	first := firstMade(foretold)
	s.Foretold = max(f.Outcome.Took-first, 0)
	s.Happened = s.Coming > 0 && len(came) >= s.Coming || s.Coming == 0 && s.Leaving > 0 && s.Left == s.Leaving
	if len(f.Loads) > 0 {
		s.Loads = f.loads(there)
		s.Happened = loadsCame(s.Loads)
	}
	s.Expired = !s.Happened && now.After(end)
	if s.Happened {
		came = came[:min(len(came), len(foretold))]
		s.compare(foretold, came, f.Outcome, first)
		s.whole = now.After(end) || f.Outcome.Done && s.Left == s.Leaving && len(came) == s.Coming &&
			!slices.ContainsFunc(came, func(p Seen) bool { return p.Ready.IsZero() }) &&
			!slices.ContainsFunc(s.Loads, func(l LoadScore) bool { return !l.right() })
	}
	return s
}

// firstMade is when the first of Pods was made, since the change: nobody can see when a change
// began that made none for a while, as the loss of a node.
func firstMade(pods []Pod) time.Duration {
	var first time.Duration
	for i, p := range pods {
		if i == 0 || *p.Created < first {
			first = *p.Created
		}
	}
	return first
}

func (s *Score) compare(foretold []Pod, came []Seen, o Outcome, first time.Duration) {
	expected := map[string]int{}
	for _, p := range foretold {
		expected[p.ownerOr()+" "+p.Node]++
	}
	var last time.Time
	for i, p := range came {
		key := p.ownerOr() + " " + p.Node
		if expected[key] > 0 {
			expected[key]--
			s.Placed++
		}
		if i < len(foretold) && foretold[i].ownerOr() != p.ownerOr() {
			s.InOrder = false
		}
		if p.Ready.After(last) {
			last = p.Ready
		}
	}
	if len(came) > 0 && !last.IsZero() {
		s.Took = last.Sub(came[0].Created)
	}
	if s.Undone {
		s.WithinSpread = slices.ContainsFunc(came, func(p Seen) bool { return p.Ready.IsZero() })
		return
	}
	if s.Coming == 0 { // Pods that are gone tell no time
		s.WithinSpread = true
		return
	}
	s.WithinSpread = s.Took >= o.Fastest-first-spreadTolerance &&
		s.Took <= max(o.P99, o.Took)-first+spreadTolerance
}

// Line prints the score.
func (s Score) Line() string {
	head := s.Verb + " " + s.Target + ": "
	switch {
	case s.Expired:
		return head + "it was not done within the horizon"
	case !s.Happened:
		return head + "it has not been done yet"
	}
	order, spread := "in the order foretold", "within the spread"
	if !s.InOrder {
		order = "in another order"
	}
	if !s.WithinSpread {
		spread = "outside of the spread"
	}
	took := fmt.Sprintf("took %s, foretold %s, %s", seconds(s.Took), seconds(s.Foretold), spread)
	switch {
	case s.Undone && s.WithinSpread:
		took = "not all are ready, as foretold"
	case s.Undone:
		took = "all are ready, which was not foretold"
	case s.Coming == 0:
		took = "no Pod was to come, so no time is compared"
	}
	for _, l := range s.Loads {
		head += l.line() + "; "
	}
	return fmt.Sprintf("%s%d of %d Pods left, %d of %d came to where they were foretold, %s; %s", head, s.Left,
		s.Leaving, s.Placed, s.Coming, order, took)
}
