package controllerruntime

import (
	"time"

	"k8s.io/utils/clock"
)

// minTickerPeriod is how often a queue renews its metric of unfinished work. The library does it
// every half second per queue, which is most of what an idle process would wake for.
const minTickerPeriod = 10 * time.Second

// slowTickClock is the real clock with tickers that tick no faster than slowest. Queues use tickers
// for metrics and as a fallback only; work and delays do not wait for them.
type slowTickClock struct{ clock.RealClock }

// NewTicker makes a ticker of at least slowest.
func (p slowTickClock) NewTicker(d time.Duration) clock.Ticker {
	return p.RealClock.NewTicker(max(d, minTickerPeriod))
}
