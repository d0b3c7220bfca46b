package cli

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress prints each step of coming up with the time since the start.
type Progress struct {
	out   io.Writer
	start time.Time

	mu sync.Mutex
}

func NewProgress(out io.Writer) *Progress { return &Progress{out: out, start: time.Now()} }

// Step prints one line; it may be called from several goroutines.
func (p *Progress) Step(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "%7.3fs  %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
}
