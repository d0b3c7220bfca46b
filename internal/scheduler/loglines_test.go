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
	"github.com/gantry-project/gantry/internal/scheduler/schedule"
)

// logged schedules Pods at a verbosity: how many bytes and lines the log has for each, and how long
// their decisions took, shortest first.
func logged(t testing.TB, verbosity, nodes, pods int) (bytes, lines float64, took []time.Duration) {
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
		for _, f := range c.notes.of(name) {
			if r, ok := f.(journal.Ruled); ok {
				took = append(took, time.Duration(r.Took))
			}
		}
	}
	slices.Sort(took)
	return float64(written.Load()-beforeBytes) / float64(pods), float64(said.Load()-beforeLines) / float64(pods), took
}

// At -v=2 a Pod costs one line. At -v=4 it costs one more for each node that is scored and three
// beside, and in a large cluster no more than for the best few nodes. A node's line is no longer
// than two of those at -v=2.
//
// row: SCO-21
func TestLogLinesPerNodeAreBounded(t *testing.T) {
	t.Parallel()
	const pods = 20
	for _, nodes := range []int{1, 3, schedule.ManyNodes + 50} {
		shown := nodes
		if nodes > schedule.ManyNodes {
			shown = schedule.MaxScores
		}
		short, one, _ := logged(t, 2, nodes, pods)
		long, many, _ := logged(t, 4, nodes, pods)
		t.Logf("%d nodes: %.0f bytes for each Pod at -v=2, %.0f at -v=4: %.1f times", nodes, short, long, long/short)
		if one != 1 || many != float64(4+shown) {
			t.Errorf("%d nodes: %.2f lines for each Pod at -v=2, %.2f at -v=4; want 1 and %d", nodes, one, many,
				4+shown)
		}
		if most := short * (4 + 2*float64(shown)); long > most {
			t.Errorf("%d nodes: %.0f bytes for each Pod at -v=4, want at most %.0f", nodes, long, most)
		}
	}
}

// BenchmarkLogInDetail measures what a decision takes at both verbosities, the smaller of each pair
// first: go test -bench LogInDetail -run - ./internal/scheduler
func BenchmarkLogInDetail(b *testing.B) {
	for b.Loop() {
		for _, v := range []int{2, 4} {
			bytes, _, took := logged(b, v, 100, 300)
			b.ReportMetric(bytes, fmt.Sprintf("bytes/Pod-v%d", v))
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), fmt.Sprintf("p50-us-v%d", v))
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), fmt.Sprintf("p99-us-v%d", v))
		}
	}
}
