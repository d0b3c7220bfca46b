package eviction

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/pod"
)

// HardGrace is what a victim of a hard threshold gets to end.
const HardGrace = time.Second

// Config is how a node evicts.
type Config struct {
	Thresholds          []Threshold   // see Thresholds
	PressureTransition  time.Duration // how long a condition outlasts its thresholds
	MaxPodGrace         time.Duration // most that a victim of a soft threshold gets to end
	Ranking             Ranking
	FruitlessEvictions  int           // in a row, after which no more Pods go for a signal; 0: never
	FruitlessHoldPeriod time.Duration // after which one more Pod goes
}

// In is all that a decision is made of.
type In struct {
	Config       Config
	Disks        Disks
	Observations Observations
	Pods         []*v1.Pod            // those that may go
	Use          map[types.UID]PodUse // of the Pods; may be empty until Target is known
	State        State
	Now          time.Time
}

// Met is a threshold and since when it is met.
type Met struct {
	Threshold
	Since time.Time
}

// State is what one decision leaves to the next. The zero value is that of a node that has just
// started.
type State struct {
	Met           []Met       // whose grace may not be over
	ThresholdsMet []Threshold // whose grace is over: they stay met until the minimum reclaim is there
	// when a threshold of the condition was last met
	ConditionsSeen map[v1.NodeConditionType]time.Time
	Last           Observations
	Gain           Gain
}

// Decision is what to do.
type Decision struct {
	State      State
	Conditions []v1.NodeConditionType // of the node, by name
	Met        []Met                  // thresholds that are met, grace or not
	Thresholds []Threshold            // those to act on now, first the one to act on first
	Target     *Threshold             // the one Pods go for; nil: nothing is to be done
	Resource   v1.ResourceName        // of Target
	Reclaim    []Reclaim              // what to try before a Pod goes: see Resolved
	Ranked     []Ranked               // all Pods, in the order they would go
	Victim     *Victim                // nil: nobody may go
	Fruitless  *Fruitless             // evictions bring nothing: nobody goes for this signal
}

// Victim is the Pod that goes.
type Victim struct {
	Ranked
	Place       int           // in Decision.Ranked
	Grace       time.Duration // for its containers to end
	Message     string        // of its status, its event and its condition
	Annotations map[string]string
}

// Decide looks at the node once. The same In gives the same Decision: it may be asked first without
// Use, to learn whether Pods have to be measured at all, and again with it.
func Decide(in In) Decision {
	d := Decision{State: State{Last: in.Observations, ConditionsSeen: map[v1.NodeConditionType]time.Time{}}}
	met := thresholdsMet(in.Config.Thresholds, in.Observations, false)
	for _, t := range thresholdsMet(in.State.ThresholdsMet, in.Observations, true) {
		if !slices.ContainsFunc(met, t.same) {
			met = append(met, t)
		}
	}
	for _, t := range met {
		since := in.Now
		if i := slices.IndexFunc(in.State.Met, func(m Met) bool { return m.same(t) }); i >= 0 {
			since = in.State.Met[i].Since
		}
		d.Met = append(d.Met, Met{t, since})
	}
	d.State.Met = d.Met
	d.conditions(in)
	for _, m := range d.Met {
		if in.Now.Sub(m.Since) >= m.Grace {
			d.State.ThresholdsMet = append(d.State.ThresholdsMet, m.Threshold)
		}
	}
	for _, t := range d.State.ThresholdsMet {
		if hasNewerStats(in.Observations[t.Signal], in.State.Last, t.Signal) {
			d.Thresholds = append(d.Thresholds, t)
		}
	}
	slices.SortStableFunc(d.Thresholds,
		func(a, b Threshold) int { return trueFirst(a.Signal.isMemory(), b.Signal.isMemory()) })
	d.State.Gain = in.State.Gain.next(in, d.State.ThresholdsMet)
	d.choose(in)
	return d
}

// Resolved tells whether nothing has to be reclaimed any more: every threshold, and what it wants
// more, is available. It is asked with figures that were read after a reclaim.
func Resolved(c Config, o Observations) bool { return len(thresholdsMet(c.Thresholds, o, true)) == 0 }

func thresholdsMet(list []Threshold, seen Observations, reclaim bool) []Threshold {
	var out []Threshold
	for _, t := range list {
		if o, ok := seen[t.Signal]; ok && t.met(o, reclaim) {
			out = append(out, t)
		}
	}
	return out
}

// hasNewerStats tells whether an observation is younger than the last one; one without a time is.
func hasNewerStats(o Observation, last Observations, s Signal) bool {
	before, known := last[s]
	return !known || o.At.IsZero() || o.At.After(before.At)
}

// conditions derives those of the node: of thresholds that are met, and of those that were met not
// longer ago than the transition period.
func (d *Decision) conditions(in In) {
	seen := d.State.ConditionsSeen
	for c, at := range in.State.ConditionsSeen {
		seen[c] = at
	}
	for _, m := range d.Met {
		seen[rowOf(m.Signal).condition] = in.Now
	}
	for c, at := range seen {
		if in.Now.Sub(at) < in.Config.PressureTransition {
			d.Conditions = append(d.Conditions, c)
		}
	}
	slices.Sort(d.Conditions)
}

// choose finds the threshold to act on, what to reclaim for it and the Pod that has to go.
func (d *Decision) choose(in In) {
	for i := range d.Thresholds {
		t := &d.Thresholds[i]
		if f := d.State.Gain.held(t.Signal, in); f != nil {
			d.Fruitless = f
			continue
		}
		d.Target, d.Resource = t, t.Signal.Resource()
		break
	}
	if d.Target == nil {
		return
	}
	d.Reclaim = rowOf(d.Target.Signal).reclaim(in.Disks)
	d.Ranked = Rank(in.Config.Ranking, d.Target.Signal, Candidates{in.Pods, in.Use, in.Disks})
	for i, r := range d.Ranked {
		if !r.Critical {
			d.Victim = &Victim{Ranked: r, Place: i, Grace: in.Config.grace(*d.Target, r.Pod)}
			d.Victim.Message, d.Victim.Annotations = message(d, r, in)
			return
		}
	}
}

// grace is how long a victim has to end.
func (c Config) grace(t Threshold, p *v1.Pod) time.Duration {
	if t.Hard() {
		return HardGrace
	}
	if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
		return min(c.MaxPodGrace, pod.Seconds(*s))
	}
	return c.MaxPodGrace
}
