package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func shell(t *testing.T, script string, logs ...string) *Process {
	t.Helper()
	p, err := Start(exec.Command("sh", "-c", script), logs...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

var errNotYet = errors.New("not yet")

func neverReady(context.Context) error { return errNotYet }

// A wait for a program that has ended returns at once, with how it ended and with the ends
// of its output and its log, however the waiting is done.
func TestProgramEndIsReportedAtOnce(t *testing.T) {
	log := filepath.Join(t.TempDir(), "own.log")
	if err := os.WriteFile(log, []byte("first line\n"+strings.Repeat("x", maxReportedBytes)+"\nthe reason\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for name, wait := range map[string]func(*Process) error{
		"for words":  func(p *Process) error { return p.WaitOutput(t.Context(), "ready") },
		"for a sign": func(p *Process) error { return p.Await(t.Context(), time.Hour, neverReady) },
		"for an answer that hangs": func(p *Process) error {
			return p.Await(t.Context(), time.Hour, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := wait(shell(t, "echo it begins; exit 3", log, filepath.Join(t.TempDir(), "not.there")))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range []string{"exit status 3", "it begins", "own.log", "the reason"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("lacks %q:\n%v", want, err)
				}
			}
			if strings.Contains(err.Error(), "first line") {
				t.Errorf("the error has the whole log:\n%v", err)
			}
		})
	}
}

// A program that runs and never gives what is waited for is told of with its output when the
// patience ends; one that gives it is waited for no longer.
func TestAProgramThatRuns(t *testing.T) {
	p := shell(t, "echo node ready; exec sleep 1000")
	if err := p.WaitOutput(t.Context(), "node ready"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	for _, err := range []error{p.WaitOutput(ctx, "more"), p.Await(ctx, time.Millisecond, neverReady)} {
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "node ready") {
			t.Errorf(`got %v, want an error DeadlineExceeded and an error with "node ready"`, err)
		}
	}
	if !strings.Contains(p.Report(), "(runs)") {
		t.Errorf("got %v, want p.Report() with (runs)", p.Report())
	}
	n := 0
	if err := p.Await(t.Context(), time.Millisecond, func(context.Context) error {
		if n++; n < 3 {
			return errNotYet
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if err := p.End(time.Minute); err == nil || !strings.Contains(err.Error(), "terminated") {
		t.Errorf("ended by SIGTERM: %v", err)
	}
}

// A program that does not end when it is asked is killed, and that is reported.
func TestAProgramThatDoesNotEnd(t *testing.T) {
	p := shell(t, "trap '' TERM; echo deaf; while :; do sleep 0.1; done")
	if err := p.WaitOutput(t.Context(), "deaf"); err != nil {
		t.Fatal(err)
	}
	if err := p.End(10 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "did not end") {
		t.Errorf(`got %v, want an error with "did not end"`, err)
	}
	if err := p.Failed(); err != nil {
		t.Errorf("it was asked to end: %v, want no error", err)
	}
}

// A program that ended by itself has failed, whatever its exit code; one that runs has not.
func TestAProgramThatEndedByItselfHasFailed(t *testing.T) {
	p := shell(t, "read x; echo reason")
	<-p.Exited()
	if err := p.Failed(); err == nil || !strings.Contains(err.Error(), "reason") {
		t.Errorf("got %v, want an error with reason", err)
	}
	if err := shell(t, "exec sleep 1000").Failed(); err != nil {
		t.Error(err)
	}
}
