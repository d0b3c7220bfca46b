package frameworkruntime

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/util/workqueue"
)

// minChunk is the least number of pieces that a goroutine takes at a time.
const minChunk = 16

// Parallelizer runs work on at most Workers goroutines, the caller's among them. A panic is thrown
// again on the caller's goroutine.
type Parallelizer struct{ Workers int }

// Until runs do for 0..pieces-1 and returns when all are done or ctx has ended.
func (p Parallelizer) Until(ctx context.Context, pieces int, do workqueue.DoWorkPieceFunc, _ string) {
	p.run(pieces, func(i int) bool {
		if ctx.Err() != nil {
			return false
		}
		do(i)
		return true
	})
}

// ForEach runs do for 0..n-1 and returns when all are done.
func (p Parallelizer) ForEach(n int, do func(int)) {
	p.run(n, func(i int) bool {
		do(i)
		return true
	})
}

// run calls do for 0..n-1 from several goroutines, in chunks, and returns when all have ended. do
// returning false ends its own goroutine's work. A panic of do stops the others and is raised again
// on the caller's goroutine.
func (p Parallelizer) run(n int, do func(int) bool) {
	workers := min(max(p.Workers, 1), runtime.GOMAXPROCS(0), (n+minChunk-1)/minChunk)
	if workers <= 1 {
		for i := range n {
			if !do(i) {
				return
			}
		}
		return
	}
	chunk := max(n/(workers*8), minChunk)
	var next atomic.Int64
	work := func() {
		for {
			to := int(next.Add(int64(chunk)))
			for i := to - chunk; i < min(to, n); i++ {
				if !do(i) {
					return
				}
			}
			if to >= n {
				return
			}
		}
	}
	var wg sync.WaitGroup
	var broken atomic.Pointer[PluginPanic]
	caught := func() {
		defer func() {
			if v := recover(); v != nil {
				broken.CompareAndSwap(nil, NewPluginPanic(v))
				next.Add(int64(n)) // the others stop
			}
		}()
		work()
	}
	for range workers - 1 {
		wg.Go(caught)
	}
	caught()
	wg.Wait()
	if p := broken.Load(); p != nil {
		panic(p) // on the caller's goroutine, where it can be caught
	}
}
