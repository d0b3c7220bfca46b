package watchbatching

import "time"

const (
	// flushCost is what a flush costs in processor time, without the client's side on the same
	// machine.
	flushCost = 80 * time.Microsecond
	// minDelay is the shortest delay that is worth a timer; longer ones are doublings of it, so
	// that watchers wake at the same moments.
	minDelay = 500 * time.Microsecond
	// maxDelay bounds what a delay adds to the latency of an event.
	maxDelay = 16 * minDelay
	// maxDelayedEvents is how many events may come during a delay: the cacher's channels hold ten,
	// and it terminates watches whose channel is full.
	maxDelayedEvents = 6
	// burstPeriod is how long a burst switches delays off: writes that etcd syncs together come in
	// bursts, one after the other.
	burstPeriod = time.Second
	// lateThreshold is how late a timer may fire on a machine with idle processors. On a busy one,
	// events collect anyway, and a delay would add to the latency that the busy processors cause.
	lateThreshold = 2 * time.Millisecond
)

// FlushStats is what FlushDelay decides by, taken at the flush of one watcher's response.
type FlushStats struct {
	Watchers   int           // watchers flushed within the last activePeriods, this one included
	Processors int           // GOMAXPROCS
	Events     int           // events of this watcher within Since
	Since      time.Duration // time since this watcher's last delay began
	Burst      bool          // within burstPeriod, this watcher had more events at once than channels hold
	Late       bool          // some watcher's timer has fired later than lateThreshold just now
}

// FlushDelay returns how long a watch handler waits before it reads events again; 0 for not at all.
// The delay is long enough that flushing all active watchers once per delay takes no more than the
// processors' time, and short enough that the events which come meanwhile, at the rate of those
// before, stay below maxDelayedEvents. It is 0 with few watchers, during bursts and on busy
// processors. It is a power of two times minDelay, at most maxDelay.
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
