package behavior

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// Life is what a journal tells of one Pod, oldest first, and which kind of Pod it is (OwnerKey).
type Life struct {
	Owner   string
	Entries []journal.Entry
}

// LearnLives measures in journals, more exactly than statuses tell and of Pods that are gone too,
// how long Pods take to start, to become ready and to stop, how long containers run that end by
// themselves, with which code, and the most memory that Pods took whose containers ended.
func LearnLives(lives []Life) map[string]Script {
	all := map[string]*measured{}
	for _, l := range lives {
		if all[l.Owner] == nil {
			all[l.Owner] = &measured{exits: map[int32]int{}}
		}
		all[l.Owner].add(l.Entries)
	}
	out := map[string]Script{}
	for owner, m := range all {
		if s := m.script(); s != (Script{}) {
			out[owner] = s
		}
	}
	return out
}

// measured are the times that lives of one owner tell, and the most bytes that each Pod took.
type measured struct {
	start, ready, stop, run []time.Duration
	memory                  []int64
	exits                   map[int32]int // how often a container ended by itself with a code
}

// moments are when things became true in one life; zero: they did not.
type moments struct {
	bound, running, ready, stopping, stopped time.Time

	restarted bool
}

// add takes in one life. Starts and readiness count of a first start only, and of one that reached
// readiness within longestStart.
func (m *measured) add(entries []journal.Entry) {
	var at moments
	var memory journal.Memory
	started := map[string]time.Time{}
	for _, e := range entries {
		switch f := e.Fact.(type) {
		case journal.Bound:
			at.bound = e.At
		case journal.Deleting, journal.Killing:
			// a kubelet stops a Pod that is finished too, which is no end from outside
			k, ok := f.(journal.Killing)
			if at.stopping.IsZero() && (!ok || k.Container == "" && k.Cause != podplan.Finished) {
				at.stopping = e.At
			}
		case journal.ContainerStarted:
			started[f.Container] = e.At
			at.restarted = at.restarted || f.Restart > 0
			if !f.Init && at.ready.IsZero() {
				at.running = e.At
			}
			if f.Init {
				delete(started, f.Container) // its time is part of the start
			}
		case journal.ContainerExited:
			if from := started[f.Container]; at.stopping.IsZero() && !from.IsZero() && f.Signal == 0 {
				m.run = append(m.run, e.At.Sub(from))
				m.exits[f.ExitCode]++
			}
			at.stopped = e.At
			memory.Peak, memory.LimitHits = max(memory.Peak, f.Memory.Peak), max(memory.LimitHits, f.Memory.LimitHits)
		case journal.ConditionChanged:
			if f.Type == "Ready" && f.Status == "True" && at.ready.IsZero() {
				at.ready = e.At
			}
		}
	}
	if memory.Peak > 0 && memory.LimitHits == 0 { // at its limit a Pod takes what the limit leaves it
		m.memory = append(m.memory, int64(memory.Peak))
	}
	toRun, toReady := at.running.Sub(at.bound), at.ready.Sub(at.running)
	if !at.bound.IsZero() && !at.running.IsZero() && !at.ready.IsZero() && !at.restarted &&
		min(toRun, toReady) >= 0 && max(toRun, toReady) <= longestStart {
		m.start, m.ready = append(m.start, toRun), append(m.ready, toReady)
	}
	if !at.stopping.IsZero() && at.stopped.After(at.stopping) {
		m.stop = append(m.stop, at.stopped.Sub(at.stopping))
	}
}

// script is what was measured.
func (m *measured) script() Script {
	span := func(all []time.Duration) *Span {
		if len(all) == 0 {
			return nil
		}
		return new(spanOf(all))
	}
	s := Script{Start: span(m.start), Ready: span(m.ready), Stop: span(m.stop), Run: span(m.run)}
	if len(m.memory) > 0 {
		slices.Sort(m.memory)
		s.Memory = resource.NewQuantity(m.memory[len(m.memory)/2], resource.BinarySI)
	}
	for code, n := range m.exits {
		if 2*n > len(m.run) {
			s.ExitCode = new(code)
		}
	}
	return s
}
