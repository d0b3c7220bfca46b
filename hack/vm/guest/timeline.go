package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// timeline prints what happens, with the seconds since the kernel started.
type timeline struct {
	mu     sync.Mutex
	out    io.Writer
	failed int // expectations that did not hold
}

// now is the kernel's monotonic clock, the one of its traces.
func now() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}

func (t *timeline) say(format string, args ...any) { t.sayAt(now(), format, args...) }

// sayAt is about something that was noticed later than it happened.
func (t *timeline) sayAt(at time.Duration, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.out, "%9.3fs  %s\n", at.Seconds(), strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (t *timeline) heading(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(t.out, "== %s\n", text)
}

// expect says whether something holds.
func (t *timeline) expect(ok bool, format string, args ...any) {
	word := "ok:  "
	if !ok {
		word = "FAIL:"
		t.mu.Lock()
		t.failed++
		t.mu.Unlock()
	}
	t.say("%s %s", word, fmt.Sprintf(format, args...))
}
