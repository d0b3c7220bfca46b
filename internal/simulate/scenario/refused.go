package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gantry-project/gantry/internal/simulate/forecast"
	"github.com/gantry-project/gantry/internal/simulate/fork"
)

// refusals follows the events of workloads whose Pods the API refuses.
type refusals struct {
	log    *fork.Log
	read   int                         // events that were taken in
	open   map[string]forecast.Pending // by namespace and kind/name: the last attempt was refused
	before map[string]bool             // those that were refused before the change
}

func newRefusals(log *fork.Log) *refusals {
	r := &refusals{log: log, open: map[string]forecast.Pending{}}
	r.update()
	r.before = map[string]bool{}
	for key := range r.open {
		r.before[key] = true
	}
	return r
}

// update takes in the events since the last call.
func (r *refusals) update() {
	events := r.log.Events()
	for _, e := range events[r.read:] {
		object := strings.ToLower(e.Kind) + "/" + e.Name
		key := e.Namespace + " " + object
		switch e.Reason {
		case "FailedCreate":
			r.open[key] = forecast.Pending{Object: object, Cause: e.Message, Fixes: fixesOf(e)}
		case "SuccessfulCreate":
			delete(r.open, key)
		}
	}
	r.read = len(events)
}

// since returns what has been refused since the change, by namespace and name.
func (r *refusals) since() []forecast.Pending {
	r.update()
	var out []forecast.Pending
	for _, key := range slices.Sorted(maps.Keys(r.open)) {
		if !r.before[key] {
			out = append(out, r.open[key])
		}
	}
	return out
}

// fixesOf says what would let refused Pods in.
func fixesOf(e fork.Event) []string {
	_, rest, ok := strings.Cut(e.Message, "exceeded quota: ")
	if !ok {
		return nil
	}
	quota, _, _ := strings.Cut(rest, ",")
	return []string{fmt.Sprintf("raise the quota, or have fewer Pods; kubectl -n %s edit resourcequota %s", e.Namespace,
		quota)}
}
