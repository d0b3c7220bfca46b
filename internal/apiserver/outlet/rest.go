package outlet

import "time"

const (
	// flushCost is what a flush costs, in time of one processor, the client's side on the same machine not counted.
	flushCost = 80 * time.Microsecond
	// shortest is the rest that is worth a timer; the others are it doubled, so that watchers agree on when they end.
	shortest = 500 * time.Microsecond
	// longest bounds what a rest adds to the age of an event.
	longest = 16 * shortest
	// roomy is how many events may come during a rest: a watch cache keeps room for ten and closes watches that do not take theirs.
	roomy = 6
	// bursty is how long after a burst the next one is expected: writes that etcd syncs together come together, again and again.
	bursty = time.Second
	// overdue is how late a rest may end on a machine that has time for us. On one that has not, events gather by themselves, and who is woken late
	// must not be late by its own choice too.
	overdue = 2 * time.Millisecond
)

// Beat is what is known when a watcher's answer was flushed.
type Beat struct {
	Watchers   int           // that were flushed lately, this one included
	Processors int           // of the server
	Events     int           // of this watcher, since Since
	Since      time.Duration // since the last rest began
	Burst      bool          // this watcher had more events at once lately than there is room for
	Late       bool          // rests have ended overdue lately
}

// Rest is how long a watcher may wait before it looks for events again: so long that flushing all the watchers that are as busy takes no more than
// all processors' time, and not so long that the events which come meanwhile, at the pace of those before, find no room. Few watchers do not rest, nor
// does anybody in a time of bursts, which gather by themselves, or where the processors are wanted by others.
func Rest(b Beat) time.Duration {
	want := time.Duration(b.Watchers) * flushCost / time.Duration(max(1, b.Processors))
	fits := func(d time.Duration) bool { return time.Duration(b.Events)*d <= roomy*b.Since }
	if want < shortest || b.Late || b.Burst || b.Events > roomy || !fits(shortest) {
		return 0
	}
	d := shortest
	for d < want && d < longest && fits(2*d) {
		d *= 2
	}
	return d
}
