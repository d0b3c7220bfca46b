package stats

import (
	"time"

	"github.com/gantry-project/gantry/internal/pod/usage"
)

// window is the shortest time a rate is computed over; who asks more often gets the same rate
// again.
const window = time.Second

// nodeRate is the key of the machine's own rate.
const nodeRate = "machine"

type rate struct {
	at    time.Time
	nanos uint64
	last  *uint64
}

// rate is in nano cores, between the last two samples that are a window apart; nil until there are
// two.
func (c *Collector) rate(key string, nanos uint64, at time.Time) *uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.rates[key].next(nanos, at)
	c.rates[key] = r
	return r.last
}

func (r rate) next(nanos uint64, at time.Time) rate {
	elapsed := at.Sub(r.at)
	switch {
	case r.at.IsZero() || nanos < r.nanos: // the first sample, or a cgroup made anew
		return rate{at: at, nanos: nanos}
	case elapsed < window:
		return r
	}
	cores := uint64(float64(nanos-r.nanos) * float64(time.Second) / float64(elapsed))
	return rate{at: at, nanos: nanos, last: &cores}
}

// forget drops what no running Pod has any more.
func (c *Collector) forget(pods []Pod) {
	keep := map[string]bool{nodeRate: true, "/": true, c.d.Paths.Pods: true}
	for _, p := range pods {
		keep[p.Measured.Path], keep[p.Sandbox.Measured.Path] = true, true
		for _, x := range p.Containers {
			keep[x.Measured.Path] = true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, r := range c.rates {
		if !keep[key] && time.Since(r.at) > time.Minute {
			delete(c.rates, key)
		}
	}
	for dir, s := range c.sizes {
		if time.Since(s.at) > 10*max(c.d.DiskAge, time.Minute) {
			delete(c.sizes, dir)
		}
	}
}

type size struct {
	at    time.Time
	space usage.Space
}

// space adds up a directory, at most once per DiskAge.
func (c *Collector) space(dir string) (usage.Space, time.Time, error) {
	c.mu.Lock()
	s, ok := c.sizes[dir]
	c.mu.Unlock()
	if ok && time.Since(s.at) < c.d.DiskAge {
		return s.space, s.at, nil
	}
	u, err := c.d.Host.Space(dir)
	if err != nil {
		return u, time.Time{}, err
	}
	s = size{time.Now(), u}
	c.mu.Lock()
	c.sizes[dir] = s
	c.mu.Unlock()
	return u, s.at, nil
}
