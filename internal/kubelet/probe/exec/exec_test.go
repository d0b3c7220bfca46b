package exec_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	utilexec "k8s.io/utils/exec"

	"github.com/gantry-project/gantry/internal/kubelet/probe"
	"github.com/gantry-project/gantry/internal/kubelet/probe/exec"
	"github.com/gantry-project/gantry/internal/kubelet/probe/probetest"
)

// fakeRuntime answers by the command's first word, as CRI's client does.
type fakeRuntime struct{}

func (fakeRuntime) ExecSync(ctx context.Context, _ string, cmd []string,
	timeout time.Duration) ([]byte, []byte, error) {
	switch word := cmd[0]; word {
	case "healthy":
		return []byte("fine"), nil, nil
	case "mute":
		select {
		case <-time.After(timeout):
			return nil, nil, status.Error(codes.DeadlineExceeded, "too long")
		case <-ctx.Done():
			return nil, nil, status.FromContextError(ctx.Err()).Err()
		}
	case "absent":
		return nil, nil, status.Error(codes.Unknown, `exec: "nosuch": executable file not found in $PATH`)
	case "cri-client":
		return nil, nil, fmt.Errorf("%w: %q timed out after %s", errors.New("command timed out"), "x", timeout)
	case "loud":
		return []byte(strings.Repeat("x", 20<<10)), nil, nil
	default:
		code, err := strconv.Atoi(strings.TrimPrefix(word, "exit-"))
		if err != nil {
			return nil, nil, err
		}
		return []byte("out "), []byte("err"), utilexec.CodeExitError{Err: errors.New("exit"), Code: code}
	}
}

func target(word ...string) probe.Target {
	return probe.Target{
		Container: &v1.Container{Env: []v1.EnvVar{{Name: "WORD", Value: "healthy"}}}, Timeout: time.Second,
		Probe: &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: word}}},
	}
}

func TestConformance(t *testing.T) {
	probetest.Run(t, probetest.Subject{
		Prober: exec.Prober{Runtime: fakeRuntime{}},
		Target: func(_ *testing.T, c probetest.Condition) probe.Target {
			if c == probetest.Failing {
				return target("exit-1")
			}
			return target(string(c))
		},
	})
}

// row: PRB-11
func TestResults(t *testing.T) {
	for _, tc := range []struct {
		word string
		want probe.Outcome
	}{
		{"exit-0", probe.Outcome{Result: probe.Success, Output: "out err"}},
		{"exit-1", probe.Outcome{Result: probe.Failure, Output: "out err"}},
		{"exit-127", probe.Outcome{Result: probe.Failure, Output: "out err"}},
		{"$(WORD)", probe.Outcome{Result: probe.Success, Output: "fine"}},
		{"loud", probe.Outcome{Result: probe.Success, Output: strings.Repeat("x", 10<<10)}},
		// recordings/pods/liveness-exec-timeout
		{"mute", probe.Outcome{Result: probe.Failure, Output: `command timed out: "mute -c" timed out after 10ms`}},
		{"cri-client",
			probe.Outcome{Result: probe.Failure, Output: `command timed out: "cri-client -c" timed out after 10ms`}},
	} {
		to := target(tc.word, "-c")
		to.Timeout = 10 * time.Millisecond
		if got := (exec.Prober{Runtime: fakeRuntime{}}).Probe(t.Context(), to); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.word, got, tc.want)
		}
	}
	if got := (exec.Prober{Runtime: fakeRuntime{}}).Probe(t.Context(), target("absent")); got.Err == nil {
		t.Errorf("a runtime error is no answer, got %+v", got)
	}
}
