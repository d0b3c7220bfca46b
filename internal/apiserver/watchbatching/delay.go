package watchbatching

import "time"

const (
	// flushCost is what a flush costs, in time of one processor, the client's side on the same
	// machine not counted.
	flushCost = 80 * time.Microsecond
	// minDelay is the rest that is worth a timer; the others are it doubled, so that watchers agree
	// on when they end.
	minDelay = 500 * time.Microsecond
	// maxDelay bounds what a rest adds to the age of an event.
	maxDelay = 16 * minDelay
	// maxDelayedEvents is how many events may come during a rest: a watch cache keeps room for ten
	// and closes watches that do not take theirs.
	maxDelayedEvents = 6
	// burstPeriod is how long after a burst the next one is expected: writes that etcd syncs
	// together come together, again and again.
	burstPeriod = time.Second
	// lateThreshold is how late a rest may end on a machine that has time for us. On one that has
	// not, events gather by themselves, and who is woken late must not be late by its own choice
	// too.
	lateThreshold = 2 * time.Millisecond
)

// FlushStats is what is known when a watcher's answer was flushed.
type FlushStats struct {
	Watchers   int           // that were flushed lately, this one included
	Processors int           // of the server
	Events     int           // of this watcher, since Since
	Since      time.Duration // since the last rest began
	Burst      bool          // this watcher had more events at once lately than there is room for
	Late       bool          // rests have ended overdue lately
}

// FlushDelay is how long a watcher may wait before it looks for events again: so long that flushing
// all the watchers that are as busy takes no more than all processors' time, and not so long that
// the events which come meanwhile, at the pace of those before, find no room. Few watchers do not
// rest, nor does anybody in a time of bursts, which gather by themselves, or where the processors
// are wanted by others.
func FlushDelay(b FlushStats) time.Duration {
	want := time.Duration(b.Watchers) * flushCost / time.Duration(max(1, b.Processors))
	fits := func(d time.Duration) bool { return time.Duration(b.Events)*d <= maxDelayedEvents*b.Since }
	if want < minDelay || b.Late || b.Burst || b.Events > maxDelayedEvents || !fits(minDelay) {
		return 0
	}
	d := minDelay
	for d < want && d < maxDelay && fits(2*d) {
		d *= 2
	}
	return d
}
