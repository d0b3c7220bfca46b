package app

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress prints each step of coming up with the time since the start.
type progress struct {
	out   io.Writer
	start time.Time

	mu sync.Mutex
}

func newProgress(out io.Writer) *progress { return &progress{out: out, start: time.Now()} }

// step prints one line; it may be called from several goroutines.
func (p *progress) step(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "%7.3fs  %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
}
