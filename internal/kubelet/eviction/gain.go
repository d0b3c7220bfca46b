package eviction

import (
	"fmt"
	"slices"
	"time"
)

// Gain follows what evictions bring: whether more is available after a Pod went. On a node whose
// runtime frees nothing, or whose memory somebody else eats, one Pod after the other would go for
// nothing.
type Gain struct {
	// the last eviction, until figures have been read after it
	Pending *PendingEviction
	// evictions in a row that brought nothing, all for Signal
	Signal    Signal
	Fruitless int
	Since     time.Time // of the last of them
}

// PendingEviction is an eviction whose gain is not known yet.
type PendingEviction struct {
	Signal    Signal
	Available int64 // before
	Use       int64 // what the victim took; 0: not known
}

// Fruitless says that evictions for a signal stopped because they bring nothing.
type Fruitless struct {
	Signal    Signal
	Evictions int       // in a row
	Until     time.Time // when one more Pod goes, if the signal is still short
}

// Message says what happens and what to look for.
func (f Fruitless) Message() string {
	return fmt.Sprintf("%d Pods in a row were evicted for %s and no more became available: nobody is evicted for it "+
		"before %s. Look for Pods that do not end, a runtime that frees nothing, and for what else takes it.",
		f.Evictions, f.Signal, f.Until.UTC().Format(time.RFC3339))
}

// Evicted is the state after the decision's victim was asked to end.
func Evicted(d Decision) State {
	s := d.State
	if d.Victim != nil {
		s.Gain.Pending = &PendingEviction{Signal: d.Target.Signal, Available: d.State.Last[d.Target.Signal].Available,
			Use: d.Victim.Use.Value()}
	}
	return s
}

// next weighs the last eviction by the figures of in. A signal that is not under pressure any more
// begins anew.
func (g Gain) next(in In, starved []Threshold) Gain {
	of := func(s Signal) bool {
		return slices.ContainsFunc(starved, func(t Threshold) bool { return t.Signal == s })
	}
	if t := g.Pending; t != nil {
		o, seen := in.Observations[t.Signal]
		if !seen || !hasNewerStats(o, in.State.Last, t.Signal) {
			return g
		}
		g.Pending = nil
		switch {
		case o.Available-t.Available >= max(1, t.Use/10):
			g.Signal, g.Fruitless = "", 0
		case g.Signal == t.Signal:
			g.Fruitless, g.Since = g.Fruitless+1, in.Now
		default:
			g.Signal, g.Fruitless, g.Since = t.Signal, 1, in.Now
		}
	}
	if g.Signal != "" && !of(g.Signal) {
		g.Signal, g.Fruitless = "", 0
	}
	return g
}

// held tells why nobody goes for the signal now; nil when Pods may go.
func (g Gain) held(s Signal, in In) *Fruitless {
	most := in.Config.FruitlessEvictions
	until := g.Since.Add(in.Config.FruitlessHoldPeriod)
	if most == 0 || g.Signal != s || g.Fruitless < most || !in.Now.Before(until) {
		return nil
	}
	return &Fruitless{Signal: s, Evictions: g.Fruitless, Until: until}
}
