package forecast

import (
	"fmt"
	"slices"
	"time"
)

// Format is the version of stored forecasts.
const Format = 1

// Forecast is what a change of a cluster will bring. Times are since At.
type Forecast struct {
	Format  int       `json:"format"`
	Verb    string    `json:"verb"`              // drain, rollout, lose, …
	Target  []string  `json:"target"`            // node/x, deployment/x
	Source  string    `json:"source"`            // where the copied cluster came from
	Cluster string    `json:"cluster,omitempty"` // UID of the namespace kube-system; empty: not known
	At      time.Time `json:"at"`                // when it was asked for; the copy may have come to rest first
	Outcome Outcome   `json:"outcome"`           // when it is done
	// Pods are those that came, went or moved, in the order in which it happened
	Pods     []Pod      `json:"pods"`
	Capacity []Capacity `json:"capacity,omitempty"` // of a rollout or load: one for each change
	Loads    []Load     `json:"loads,omitempty"`    // of load: one for each workload
	Blocked  []Blocked  `json:"blocked,omitempty"`
	Pending  []Pending  `json:"pending,omitempty"`
	Scored   *Score     `json:"scored,omitempty"` // how right it was, once that is known
	Notes    []string   `json:"notes,omitempty"`  // what the simulation did otherwise than a cluster
}

// Outcome is when a change is done, over all seeds.
type Outcome struct {
	Done    bool          `json:"done"`            // in the run that is told
	Took    time.Duration `json:"took"`            // nanoseconds
	Seeds   int           `json:"seeds"`           // how many runs were made
	Undone  int           `json:"undone"`          // of them, those that were not done within the horizon
	Fastest time.Duration `json:"fastest"`         // nanoseconds
	Median  time.Duration `json:"median"`          // nanoseconds
	P99     time.Duration `json:"p99"`             // nanoseconds
	Why     string        `json:"why,omitempty"`   // why it is not done
	Until   time.Duration `json:"horizon"`         // nanoseconds
	Least   *int32        `json:"least,omitempty"` // fewest ready Pods at any moment, over all seeds
}

// Pod is one Pod's life as far as it belongs to the forecast. A time is nil when it does not come.
type Pod struct {
	Namespace string         `json:"namespace"`
	Name      string         `json:"name"`
	Owner     string         `json:"owner,omitempty"` // deployment/web
	Revision  string         `json:"revision,omitempty"`
	Node      string         `json:"node,omitempty"`
	Created   *time.Duration `json:"created,omitempty"` // nil: it was there before
	Scheduled *time.Duration `json:"scheduled,omitempty"`
	Running   *time.Duration `json:"running,omitempty"`
	Ready     *time.Duration `json:"ready,omitempty"`
	Leaves    *time.Duration `json:"leaves,omitempty"` // its deletion was asked for
	Gone      *time.Duration `json:"gone,omitempty"`
	Cause     string         `json:"cause,omitempty"`    // why it leaves: evicted, preempted, rolled, …
	Replaces  string         `json:"replaces,omitempty"` // the Pod of the same owner in whose place it came
}

// Key is namespace and name.
func (p Pod) Key() string { return p.Namespace + "/" + p.Name }

// ownerOr is the owner, or pod/name of a Pod without, with the namespace.
func (p Pod) ownerOr() string { return ownerOr(p.Namespace, p.Owner, p.Name) }

func ownerOr(namespace, owner, name string) string {
	if owner == "" {
		owner = "pod/" + name
	}
	return namespace + "/" + owner
}

// Capacity is how many Pods of the rolled out object there are from a time on.
type Capacity struct {
	At       time.Duration `json:"at"`
	Total    int32         `json:"total"` // without those that leave
	Ready    int32         `json:"ready"`
	New      int32         `json:"new"`      // of the new revision
	NewReady int32         `json:"newReady"` // of these
	Leaving  int32         `json:"leaving"`
	Desired  int32         `json:"desired"`
}

// Blocked is a budget that kept a Pod from being evicted.
type Blocked struct {
	Pod     string         `json:"pod"`
	Budget  string         `json:"budget"`
	Message string         `json:"message"`
	From    time.Duration  `json:"from"`
	Until   *time.Duration `json:"until,omitempty"` // nil: to the end of the simulation
}

// Pending is a Pod that does not become ready, with the answer of `gantry why`.
type Pending struct {
	Pod    string   `json:"pod"`
	Cause  string   `json:"cause"`
	Fixes  []string `json:"fixes,omitempty"`
	Fatal  bool     `json:"-"`
	Object string   `json:"object,omitempty"` // what failed instead of a Pod: replicaset/web-1
}

// Spread fills the outcome's figures from the durations of all runs that were done.
func (o *Outcome) Spread(took []time.Duration) {
	if len(took) == 0 {
		return
	}
	all := slices.Sorted(slices.Values(took))
	o.Fastest, o.Median = all[0], all[len(all)/2]
	o.P99 = all[min(len(all)-1, len(all)*99/100)]
}

// seconds prints a time since the change.
func seconds(d time.Duration) string {
	d = d.Round(100 * time.Millisecond)
	if d >= time.Minute {
		return fmt.Sprintf("%d:%04.1f", int(d.Minutes()), (d % time.Minute).Seconds())
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}

func optional(d *time.Duration) string {
	if d == nil {
		return "-"
	}
	return seconds(*d)
}
