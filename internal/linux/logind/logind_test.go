package logind_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/internal/linux/logind"
	"github.com/gantry-project/gantry/internal/linux/logind/logindfake"
)

func dial(t *testing.T) (*logindfake.Service, *logind.Session, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := logindfake.Start(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	conf := filepath.Join(dir, "logind.conf.d")
	c, err := logind.Dial(t.Context(), logind.Options{Address: s.Address, ConfDir: conf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return s, c, conf
}

func TestMaxDelayIsReadAndRaised(t *testing.T) {
	t.Parallel()
	s, c, conf := dial(t)
	s.OnLoad = func(s *logindfake.Service) { s.SetDelay(90_000_000) }
	if d, err := c.CurrentInhibitDelay(t.Context()); err != nil || d != 5*time.Second {
		t.Fatalf("got %v, %v, want no error and d %v", d, err, 5*time.Second)
	}
	if err := c.OverrideInhibitDelay(t.Context(), 90*time.Second); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(conf, "99-kubelet.conf"))
	if err != nil || !strings.Contains(string(raw), "[Login]\nInhibitDelayMaxSec=90\n") {
		t.Errorf(`got %q %v, want no error and raw with "[Login] InhibitDelayMaxSec=90"`, raw, err)
	}
	if d, err := c.CurrentInhibitDelay(t.Context()); err != nil || d != 90*time.Second {
		t.Errorf("got %v, %v, want no error and d %v", d, err, 90*time.Second)
	}
	s.SetDelay(1<<64 - 1)
	if d, err := c.CurrentInhibitDelay(t.Context()); err != nil || d < 1<<62 {
		t.Errorf("got %v, %v, want no error and d at least %v", d, err, 1<<62)
	}
}

func TestLockIsHeldUntilReleased(t *testing.T) {
	t.Parallel()
	s, c, _ := dial(t)
	release, err := c.InhibitShutdown(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	held, taken, changed := s.Locks()
	if held != 1 || taken != 1 {
		t.Fatalf("got %v, %v, want held 1 and taken 1", held, taken)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	<-changed
	if held, _, _ := s.Locks(); held != 0 {
		t.Errorf("got %v, want held 0", held)
	}
}

func TestPrepareForShutdownSignal(t *testing.T) {
	t.Parallel()
	s, c, _ := dial(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	signals, err := c.MonitorShutdown(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := c.PreparingForShutdown(ctx); err != nil || p {
		t.Errorf("got %v, %v, want no error and p false", p, err)
	}
	for _, active := range []bool{true, false} {
		if err := s.EmitPrepareForShutdown(active); err != nil {
			t.Fatal(err)
		}
		if got, open := <-signals; !open || got != active {
			t.Errorf("got %v %v, want open true and %v", got, open, active)
		}
	}
	s.DropConnections()
	if _, open := <-signals; open {
		t.Error("a signal over a connection that is lost")
	}
	if ctx.Err() != nil {
		t.Error("the loss is not seen")
	}
}

func TestNoBus(t *testing.T) {
	t.Parallel()
	if _, err := logind.Dial(t.Context(), logind.Options{Address: "unix:path=/nowhere/bus"}); err == nil ||
		!strings.Contains(err.Error(), "/nowhere/bus") {
		t.Errorf("got %v, want an error with /nowhere/bus", err)
	}
}
