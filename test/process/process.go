// Package process runs a built program beside a test or a tool and waits for it.
//
// In: a command, and files in which the program logs. Out: a process whose output
// is kept. A wait returns at once when it has ended, and every error
// carries the end of what the program printed and logged, so that a program that does not come up
// is reported once, with its reason.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// maxReportedBytes is how many bytes of the end of each text a report has.
const maxReportedBytes = 6000

// Process is a program that was started. Its methods may be called from several goroutines.
type Process struct {
	cmd      *exec.Cmd
	logs     []string
	out      outputBuffer
	exited   chan struct{}
	err      error       // how it ended; after exited
	stopping atomic.Bool // to end
}

// outputBuffer keeps what a process printed and wakes those who wait for more.
type outputBuffer struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	more chan struct{}
}

func (t *outputBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.buf.Write(p)
	close(t.more)
	t.more = make(chan struct{})
	return n, err
}

func (t *outputBuffer) read() (string, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String(), t.more
}

// Start starts cmd and keeps what it prints on both channels. The ends of the files logs are in
// reports too; they need not be there yet.
func Start(cmd *exec.Cmd, logs ...string) (*Process, error) {
	p := &Process{cmd: cmd, logs: logs, out: outputBuffer{more: make(chan struct{})}, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	cmd.WaitDelay = 5 * time.Second // a child of the program that outlives it may hold its output open
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		if p.err = cmd.Wait(); errors.Is(p.err, exec.ErrWaitDelay) {
			p.err = nil
		}
		close(p.exited)
	}()
	return p, nil
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Output is what it printed so far.
func (p *Process) Output() string {
	have, _ := p.out.read()
	return have
}

// WaitOutput waits until the process has printed a text. It returns at once with a report when the
// process ends before, and when ctx does.
func (p *Process) WaitOutput(ctx context.Context, want string) error {
	for {
		have, more := p.out.read()
		if strings.Contains(have, want) {
			return nil
		}
		select {
		case <-more:
		case <-p.exited:
			if strings.Contains(p.Output(), want) {
				return nil
			}
			return p.Explain(fmt.Errorf("it did not print %q", want))
		case <-ctx.Done():
			return p.Explain(fmt.Errorf("it did not print %q: %w", want, ctx.Err()))
		}
	}
}

// Await polls until there is no error. It returns at once with a report when the
// process ends before, and with the last answer when ctx does. What is asked gets a context that
// ends with either, so a question that hangs does not hold it up.
func (p *Process) Await(ctx context.Context, every time.Duration, ask func(context.Context) error) error {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.exited:
			cancel()
		case <-asking.Done():
		}
	}()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := ask(asking)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.exited:
			return p.Explain(err)
		case <-ctx.Done():
			return p.Explain(fmt.Errorf("%w; last: %w", ctx.Err(), err))
		}
	}
}

// Failed is an error with a report when the process has ended and nobody asked it to: whatever is
// wanted of it then fails for that reason.
func (p *Process) Failed() error {
	select {
	case <-p.exited:
		if !p.stopping.Load() {
			return errors.New("it ended by itself\n" + p.Report())
		}
	default:
	}
	return nil
}

// Explain adds to an error whether the process runs still, and the ends of its output and logs; nil
// stays nil.
func (p *Process) Explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w\n%s", err, p.Report())
}

// Report is the command, how it ended if it did, and the ends of its output and logs.
func (p *Process) Report() string {
	state := "runs"
	select {
	case <-p.exited:
		state = "ended: exit code 0"
		if p.err != nil {
			state = "ended: " + p.err.Error()
		}
	default:
	}
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s (%s)\n%s", strings.Join(p.cmd.Args, " "), state, lastLines(p.Output()))
	for _, name := range p.logs {
		raw, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			raw = []byte(err.Error())
		}
		fmt.Fprintf(&b, "\n--- %s\n%s", filepath.Base(name), lastLines(string(raw)))
	}
	return b.String()
}

// lastLines is the last whole lines of a text.
func lastLines(s string) string {
	if len(s) <= maxReportedBytes {
		return s
	}
	s = s[len(s)-maxReportedBytes:]
	if _, rest, ok := strings.Cut(s, "\n"); ok {
		s = rest
	}
	return "[...]\n" + s
}

// Kill ends the process as a power cut would and waits until it is gone; one that has ended already
// is left.
func (p *Process) Kill() {
	p.stopping.Store(true)
	_ = p.cmd.Process.Kill() // fails only when it has ended
	<-p.exited
}

// End asks the process to end and returns how it ended: nil for exit code 0. After patience it is
// killed, which is an error with a report.
func (p *Process) End(patience time.Duration) error {
	p.stopping.Store(true)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.exited:
		return p.err
	case <-time.After(patience):
		report := p.Report()
		p.Kill()
		return fmt.Errorf("it did not end within %s of SIGTERM\n%s", patience, report)
	}
}
