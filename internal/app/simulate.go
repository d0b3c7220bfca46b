package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/dashboard"
	"github.com/gantry-project/gantry/internal/simulate/forecast"
	"github.com/gantry-project/gantry/internal/simulate/source"
)

// maxSimulations is how many simulations of the page run at a time; others wait.
const maxSimulations = 2

// NewSimulate returns how the page simulates: each time in a process of its own, the program at
// executable as `gantry simulate`, which gets the copied cluster on standard input and no
// credentials. So a simulation neither counts in this process's metrics nor keeps memory, and ends
// at once when nobody waits for it.
func NewSimulate(executable string) dashboard.Simulate {
	slots := make(chan struct{}, maxSimulations)
	return func(ctx context.Context, client kubernetes.Interface, call dashboard.SimulateCall) (*forecast.Forecast,
		error) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		copied, err := source.FromCluster(ctx, client)
		if err != nil {
			return nil, err
		}
		var snapshot bytes.Buffer
		if err := source.WriteSnapshot(&snapshot, copied, time.Now()); err != nil {
			return nil, err
		}
		f, err := simulateApart(ctx, executable, &snapshot, call)
		if err != nil {
			return nil, err
		}
		if note := copied.Note(); note != "" {
			f.Notes = append(f.Notes, note)
		}
		return f, nil
	}
}

// simulateApart runs the process.
func simulateApart(ctx context.Context, executable string, snapshot *bytes.Buffer, call dashboard.SimulateCall) (
	*forecast.Forecast, error) {
	args := append([]string{"simulate", call.Verb, "--from=-", "--output=json", "--keep=false"}, call.Flags...)
	c := exec.CommandContext(ctx, executable, append(append(args, "--"), call.Names...)...)
	var out, report bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = snapshot, &out, &report
	c.Env = []string{"HOME=/nonexistent", "PATH=" + os.Getenv("PATH"), "GOMAXPROCS=1"}
	c.WaitDelay = 2 * time.Second
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var exit *exec.ExitError
		if text := strings.TrimSpace(report.String()); errors.As(err, &exit) && exit.Exited() && text != "" {
			return nil, cli.UsageError(errors.New(strings.TrimPrefix(text, "gantry: ")))
		}
		return nil, fmt.Errorf("%s: %w", call, err)
	}
	var f forecast.Forecast
	if err := json.Unmarshal(out.Bytes(), &f); err != nil {
		return nil, fmt.Errorf("%s: %w", call, err)
	}
	return &f, nil
}
