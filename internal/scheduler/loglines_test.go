package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
)

// logCost is what scheduling Pods at a verbosity costs.
type logCost struct {
	bytes, lines float64         // of the log, for each Pod
	decisions    []time.Duration // the shortest first
	quickest     time.Duration   // from the queue to the binding
}

// logged schedules Pods at a verbosity.
func logged(t testing.TB, verbosity, nodes, pods int) (cost logCost) {
	t.Helper()
	var written, said atomic.Int64
	logger := funcr.New(func(prefix, args string) {
		written.Add(int64(len(prefix) + len(args) + 1))
		said.Add(1)
	}, funcr.Options{Verbosity: verbosity})
	var objects []runtime.Object
	for i := range nodes {
		objects = append(objects, aNode(fmt.Sprintf("node-%d", i), "64"))
	}
	c := startWith(t, klog.NewContext(context.Background(), logger), objects...)
	c.create(aPod("first", "10m")) // what is said at the start is no Pod's
	c.bound("first")
	c.event("first", "Scheduled", "Successfully assigned default/first to "+c.bound("first"))
	beforeBytes, beforeLines := written.Load(), said.Load()
	for i := range pods {
		c.create(aPod(fmt.Sprintf("pod-%d", i), "10m"))
	}
	for i := range pods {
		name := fmt.Sprintf("pod-%d", i)
		// written after the last line
		c.event(name, "Scheduled", "Successfully assigned default/"+name+" to "+c.bound(name))
		for _, f := range c.notes.factsOf(name) {
			switch f := f.(type) {
			case journal.Ruled:
				cost.decisions = append(cost.decisions, time.Duration(f.Took))
			case journal.Bound:
				if took := time.Duration(f.Took); cost.quickest == 0 || took < cost.quickest {
					cost.quickest = took
				}
			}
		}
	}
	slices.Sort(cost.decisions)
	cost.bytes, cost.lines = float64(written.Load()-beforeBytes)/float64(pods),
		float64(said.Load()-beforeLines)/float64(pods)
	return cost
}

// At -v=2 a Pod costs one line. At -v=4 it costs one more for each node that is scored and three
// beside, and in a large cluster no more than for the best few nodes. A node's line is no longer
// than two of those at -v=2. Pods are bound as quickly.
//
// row: SCO-17, SCO-21
func TestLogLinesPerNodeAreBounded(t *testing.T) {
	t.Parallel()
	const pods = 20
	for _, nodes := range []int{1, 3, 150} {
		shown := nodes
		if nodes > 100 {
			shown = 10
		}
		short, long := logged(t, 2, nodes, pods), logged(t, 4, nodes, pods)
		t.Logf("%d nodes: %.0f bytes for each Pod at -v=2, %.0f at -v=4: %.1f times; bound in %v and %v", nodes,
			short.bytes, long.bytes, long.bytes/short.bytes, short.quickest, long.quickest)
		if short.lines != 1 || long.lines != float64(4+shown) {
			t.Errorf("%d nodes: %.2f lines for each Pod at -v=2, %.2f at -v=4; want 1 and %d", nodes, short.lines,
				long.lines, 4+shown)
		}
		if most := short.bytes * (4 + 2*float64(shown)); long.bytes > most {
			t.Errorf("%d nodes: %.0f bytes for each Pod at -v=4, want at most %.0f", nodes, long.bytes, most)
		}
		// a busy machine may hold all Pods of one run up; it does not do so in each of five
		more := long.quickest - short.quickest
		for n := 1; n < 5 && more > 25*time.Millisecond; n++ {
			more = min(more, logged(t, 4, nodes, pods).quickest-logged(t, 2, nodes, pods).quickest)
		}
		if more > 25*time.Millisecond {
			t.Errorf("%d nodes: the quickest binding takes %v longer at -v=4, want no measurable latency", nodes, more)
		}
	}
}

// BenchmarkLogInDetail measures what a decision takes at both verbosities, the smaller of each pair
// first: go test -bench BenchmarkLogInDetail -run - ./internal/scheduler
func BenchmarkLogInDetail(b *testing.B) {
	for b.Loop() {
		for _, v := range []int{2, 4} {
			cost := logged(b, v, 100, 300)
			took := cost.decisions
			b.ReportMetric(cost.bytes, fmt.Sprintf("bytes/Pod-v%d", v))
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), fmt.Sprintf("p50-us-v%d", v))
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), fmt.Sprintf("p99-us-v%d", v))
		}
	}
}
