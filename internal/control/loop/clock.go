package loop

import (
	"time"

	"k8s.io/utils/clock"
)

// slowest is how often a queue renews its metric of unfinished work. The library does it every half second per queue, which is most of what an idle process would wake for.
const slowest = 10 * time.Second

// patient is the real clock with tickers that tick no faster than slowest. Queues use tickers for metrics and as a fallback only; work and delays do not wait for them.
type patient struct{ clock.RealClock }

// NewTicker makes a ticker of at least slowest.
func (p patient) NewTicker(d time.Duration) clock.Ticker {
	return p.RealClock.NewTicker(max(d, slowest))
}
