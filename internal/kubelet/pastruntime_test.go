package kubelet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/internal/kubelet/eviction"
	"github.com/gantry-project/gantry/test/expect"
)

// pastRuntime are signals to containers of the fake runtime that do not go through it.
type pastRuntime struct {
	*crifake.Fake
	unknown bool // which process of a container is the first
	since   func() time.Duration

	mu    sync.Mutex
	calls []string // with the time since the Pod was asked to end
}

func (s *pastRuntime) note(n unix.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprint(unix.SignalName(n), " ", s.since().Round(time.Millisecond)))
}

func (s *pastRuntime) SignalInit(ctx context.Context, pod, id string, n unix.Signal) (<-chan struct{}, error) {
	if s.unknown {
		return nil, errors.New("no first process")
	}
	s.note(n)
	return s.Fake.SignalInit(ctx, pod, id, n)
}

func (s *pastRuntime) KillContainer(pod, id string) error {
	s.note(unix.SIGKILL)
	return s.Fake.KillContainer(pod, id)
}

// A node that is short of something is not short for longer because its runtime is slow for the
// same reason: under a hard threshold neither the first signal nor the last one waits for it.
//
// row: EVC-09
func TestAHardThresholdDoesNotWaitForTheRuntime(t *testing.T) {
	const asked, deaf = `trap "exit 3" TERM; ` + unyielding, `trap "" TERM; ` + unyielding
	hard := eviction.Settings{Hard: map[string]string{"memory.available": "10%"}}
	soft := eviction.Settings{Soft: map[string]string{"memory.available": "10%"},
		SoftGracePeriod: map[string]string{"memory.available": "1s"}}
	for _, c := range []struct {
		name, command string
		signal        v1.Signal
		settings      eviction.Settings
		unknown       bool
		want          string
	}{
		{name: "ends when it is asked", command: asked, settings: hard, want: "SIGTERM 0s"},
		{name: "does not end", command: deaf, settings: hard, want: "SIGTERM 0s, SIGKILL 2s"},
		{name: "a signal of its own", command: `trap "exit 3" USR1; ` + unyielding, signal: "SIGUSR1", settings: hard,
			want: "SIGUSR1 0s"},
		{name: "its first process is not known", command: asked, settings: hard, unknown: true, want: "SIGKILL 2s"},
		{name: "a soft threshold", command: asked, settings: soft},
	} {
		t.Run(c.name, func(t *testing.T) {
			past := &pastRuntime{unknown: c.unknown}
			withThresholds(t, eviction.MemoryAvailable, c.settings, past, func(p *pressure) {
				past.since = func() time.Duration { return time.Since(p.killed) }
				web := pod("web", scriptContainer("app", c.command))
				if c.signal != "" {
					web.Spec.OS = &v1.PodOS{Name: v1.Linux}
					web.Spec.Containers[0].Lifecycle = &v1.Lifecycle{StopSignal: &c.signal}
				}
				p.create(web)
				p.advance(8 * time.Second)
				p.phase("web", v1.PodRunning)
				expect.NoError(t, p.fake.Fault("StopContainer", "delay(30s)"))
				p.set(9)
				p.advance(18 * time.Second)
				past.mu.Lock()
				got := strings.Join(past.calls, ", ")
				past.mu.Unlock()
				if got != c.want {
					t.Errorf("got signals %q past the runtime, want %q", got, c.want)
				}
				p.advance(2 * time.Minute)
				p.phase("web", v1.PodFailed)
				if p.killed.IsZero() {
					t.Error("the Pod was not asked to end")
				}
			})
		})
	}
}
