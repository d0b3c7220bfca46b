package scenario

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/simulate/behavior"
	"github.com/gantry-project/gantry/internal/simulate/forecast"
	"github.com/gantry-project/gantry/internal/simulate/fork"
	"github.com/gantry-project/gantry/internal/simulate/usage"
)

// Input is what a change is tried on.
type Input struct {
	Objects []runtime.Object // copied before each run
	Source  string           // where they came from, in words
	Start   time.Time
	Model   behavior.Model
	Seeds   int // how many runs; 0: 1
	// FirstSeed is that of the first run; 0: every Pod takes its median, nothing is left to chance
	FirstSeed uint64
	Horizon   time.Duration // 0: DefaultHorizon
	Usage     usage.Figures // what containers take, as far as it was measured
}

// DefaultHorizon is how far a simulation looks ahead.
const DefaultHorizon = time.Hour

// Change is something done to a cluster.
type Change interface {
	// Verb and Target name the change: "drain", "node/x".
	Verb() string
	Target() []string
	// Begin makes the change, or begins to: what comes later, it asks the cluster's clock to call.
	Begin(ctx context.Context, r *Run) error
	// Done reports whether the change is over. It is asked when nothing is left to do at an
	// instant.
	Done(ctx context.Context, r *Run) (bool, error)
}

// silencer is a Change that makes nodes fall silent. gracePeriod is how long the cluster waits for
// a report of a node; 0: as long as the controllers do by default.
type silencer interface{ gracePeriod() time.Duration }

// concluder is a Change that adds to the forecast when its run is over.
type concluder interface {
	conclude(ctx context.Context, r *Run) error
}

// Run is one run of a change.
type Run struct {
	Cluster  *fork.Cluster
	Forecast *forecast.Forecast
	began    time.Time
	pods     *podRecorder
	refused  *refusals
	seed     uint64 // of choices that a cluster leaves to chance; 0: none is made
	err      error
}

// Since is the time since the change began.
func (r *Run) Since() time.Duration { return r.Cluster.Now().Sub(r.began) }

const (
	// restAfter is how long nothing must have changed for a cluster to count as being at rest.
	restAfter = 20 * time.Second
	// warmUp is how long a cluster of manifests may take to come to rest before the change.
	warmUp = 15 * time.Minute
)

// Last is called with a run when it is over, while its cluster is still there.
type Last func(ctx context.Context, r *Run) error

// Simulate tries a change and returns what it brings: that of the first seed, with the spread over
// all of them. last, which may be nil, is called with the first run when it is over, while its
// cluster is still there. The error is that the change is refused, or names what cannot be copied.
func Simulate(ctx context.Context, in Input, change func() Change,
	last Last) (*forecast.Forecast, error) {
	var first *forecast.Forecast
	var took []time.Duration
	undone := 0
	for seed := range max(in.Seeds, 1) {
		f, err := simulateOnce(ctx, in.withSeed(in.FirstSeed+uint64(seed)), change(), last)
		if err != nil {
			return nil, err
		}
		last = nil
		if f.Outcome.Done {
			took = append(took, f.Outcome.Took)
		} else {
			undone++
		}
		if first == nil {
			first = f
		} else if l := f.Outcome.Least; l != nil && first.Outcome.Least != nil && *l < *first.Outcome.Least {
			first.Outcome.Least = l
		}
	}
	first.Outcome.Seeds, first.Outcome.Undone = max(in.Seeds, 1), undone
	first.Outcome.Spread(took)
	return first, nil
}

// withSeed returns the input with another first seed.
func (in Input) withSeed(seed uint64) Input {
	in.FirstSeed = seed
	return in
}

// simulateOnce is the run of the first seed. Seed 0 is that in which everything takes its median.
func simulateOnce(ctx context.Context, in Input, change Change, last Last) (*forecast.Forecast, error) {
	seed := in.FirstSeed
	objects := make([]runtime.Object, len(in.Objects))
	for i, o := range in.Objects {
		objects[i] = o.DeepCopyObject()
	}
	model := in.Model
	model.Seed = seed
	o := fork.Options{Objects: objects, Start: in.Start, Model: model, Seed: seed + 1, Usage: in.Usage}
	if s, silent := change.(silencer); silent {
		o.Heartbeats, o.NodeMonitorGracePeriod = true, s.gracePeriod()
	}
	c, err := fork.New(ctx, o)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := rest(ctx, c); err != nil {
		return nil, err
	}
	r := &Run{Cluster: c, seed: seed, began: c.Now(), pods: newPodRecorder(c), refused: newRefusals(c.Log()),
		Forecast: &forecast.Forecast{
			Format: forecast.Format, Verb: change.Verb(), Target: change.Target(), Source: in.Source, At: in.Start,
			Notes: c.Notes()}}
	c.Watch(r.pods.changed)
	if err := change.Begin(ctx, r); err != nil {
		return nil, err
	}
	if err := r.finish(ctx, in, change); err != nil {
		return nil, err
	}
	if last != nil {
		err = last(ctx, r)
	}
	return r.Forecast, err
}

// AtRest returns the objects of a copy that has come to rest: what workloads make is there, and
// what finds room is bound. Nothing is left to chance. The input's objects are taken over.
func AtRest(ctx context.Context, in Input) ([]runtime.Object, error) {
	c, err := fork.New(ctx, fork.Options{Objects: in.Objects, Start: in.Start, Model: in.Model, Seed: 1})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := rest(ctx, c); err != nil {
		return nil, err
	}
	return c.Objects(), nil
}

// rest lets a cluster come to rest, so that what follows is the change's doing.
func rest(ctx context.Context, c *fork.Cluster) error {
	end := c.Now().Add(warmUp)
	for c.Now().Before(end) {
		next := c.Now().Add(restAfter)
		quiet, err := c.Run(ctx, next, func() bool { return false })
		if err != nil {
			return err
		}
		if quiet || c.Now().Sub(c.QuietSince()) >= restAfter {
			return nil
		}
	}
	return nil
}

// finish runs until the change is done or the horizon is reached.
func (r *Run) finish(ctx context.Context, in Input, change Change) error {
	horizon := in.Horizon
	if horizon == 0 {
		horizon = DefaultHorizon
	}
	done, err := r.Cluster.Run(ctx, r.began.Add(horizon), func() bool {
		ok, err := change.Done(ctx, r)
		if err != nil {
			r.err = err
		}
		return ok || r.err != nil
	})
	if err == nil {
		err = r.err
	}
	f := r.Forecast
	f.Outcome.Done, f.Outcome.Until = done, horizon
	f.Outcome.Took = r.Since()
	f.Pending = append(f.Pending, r.refused.since()...)
	if done {
		f.Outcome.Why = ""
	}
	f.Pods = r.pods.result(r.began)
	if c, ok := change.(concluder); ok && err == nil {
		err = c.conclude(ctx, r)
	}
	return err
}
