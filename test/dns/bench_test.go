package dns

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"github.com/gantry-project/gantry/test/expect"
)

// BenchmarkQueries asks for Services' addresses from eight clients at once, each over a socket of
// its own.
func BenchmarkQueries(b *testing.B) {
	w := newFixture(b, nil)
	const services, clients = 200, 8
	for i := range services {
		w.service(fmt.Sprintf("s%d", i), nil)
	}
	expect.Eventually(w.t, "all are known", func() bool {
		return w.records(fmt.Sprintf("s%d.default.svc.cluster.local", services-1), miekg.TypeA) != "NXDOMAIN"
	})
	took := make([][]time.Duration, clients)
	b.ResetTimer()
	began := time.Now()
	var all sync.WaitGroup
	for k := range clients {
		all.Go(func() {
			c, err := miekg.Dial("udp", w.server.Address().String())
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			for i := k; i < b.N; i += clients {
				q := new(miekg.Msg).SetQuestion(fmt.Sprintf("s%d.default.svc.cluster.local.", i%services), miekg.TypeA)
				asked := time.Now()
				if err := c.WriteMsg(q); err != nil {
					b.Error(err)
					return
				}
				if r, err := c.ReadMsg(); err != nil || len(r.Answer) != 1 {
					b.Errorf("got %v %v, want no error and 1 in Answer", r, err)
					return
				}
				took[k] = append(took[k], time.Since(asked))
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "queries/s")
	one := slices.Concat(took...)
	slices.Sort(one)
	if len(one) > 0 {
		b.ReportMetric(float64(one[len(one)*99/100].Microseconds()), "p99-µs")
	}
}
