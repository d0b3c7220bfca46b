package controllerruntime

import (
	"time"

	"k8s.io/utils/clock"
)

// minTickerPeriod is the least period of a queue's tickers, which update its metric of unfinished
// work. The library's half second per queue would cause most wakeups of an idle process.
const minTickerPeriod = 10 * time.Second

// slowTickClock is the real clock with tickers of at least minTickerPeriod. Queues use tickers only
// for metrics and as a fallback; work and delays do not depend on them.
type slowTickClock struct{ clock.RealClock }

// NewTicker returns a ticker of period d, but at least minTickerPeriod.
func (p slowTickClock) NewTicker(d time.Duration) clock.Ticker {
	return p.RealClock.NewTicker(max(d, minTickerPeriod))
}
