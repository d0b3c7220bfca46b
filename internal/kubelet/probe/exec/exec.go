// Package exec is the exec probe: a command that runs in the container.
//
// In: an exec probe, the runtime's ExecSync. Out: Success for exit code 0, Failure for any other
// and for a command that takes too long.
package exec

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	utilexec "k8s.io/utils/exec"

	"github.com/gantry-project/gantry/internal/kubelet/probe"
)

const maxOutput = 10 << 10 // bytes kept of what the command says

// Runtime runs a command in a container; internalapi.RuntimeService does. An exit code other than 0
// is an error that is a utilexec.ExitError.
type Runtime interface {
	ExecSync(ctx context.Context, containerID string, cmd []string,
		timeout time.Duration) (stdout, stderr []byte, err error)
}

// Prober asks through the runtime.
type Prober struct{ Runtime Runtime }

// Probe runs the command.
func (a Prober) Probe(ctx context.Context, t probe.Target) probe.Outcome {
	command := probe.ExpandStatic(t.Probe.Exec.Command, t.Container.Env)
	stdout, stderr, err := a.Runtime.ExecSync(ctx, t.ContainerID, command, t.Timeout)
	message := string(append(stdout, stderr...))
	if len(message) > maxOutput {
		message = message[:maxOutput]
	}
	var exit utilexec.ExitError
	switch {
	case err == nil:
		return probe.Outcome{Result: probe.Success, Output: message}
	case errors.As(err, &exit) && exit.Exited():
		if exit.ExitStatus() == 0 {
			return probe.Outcome{Result: probe.Success, Output: message}
		}
		return probe.Outcome{Result: probe.Failure, Output: message}
	case ctx.Err() == nil && timedOut(err):
		text := fmt.Sprintf("command timed out: %q timed out after %s", strings.Join(command, " "), t.Timeout)
		return probe.Outcome{Result: probe.Failure, Output: text}
	}
	return probe.Outcome{Err: err}
}

func timedOut(err error) bool {
	return status.Code(err) == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded) ||
		strings.HasPrefix(err.Error(), "command timed out")
}
