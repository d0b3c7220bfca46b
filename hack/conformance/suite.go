package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// part is a run of the suite: a label filter, and the number of processes.
type part struct {
	name, labels string
	processes    int
}

// parts returns the two runs: tests that disturb others run alone, after the others.
func parts(labels string) []part {
	return []part{
		{"parallel", "(" + labels + ") && !(Serial || Disruptive)", 4},
		{"serial", "(" + labels + ") && (Serial || Disruptive)", 1},
	}
}

// spec is the result of one test.
type spec struct {
	Name   string
	State  string // passed, failed, panicked, timedout, interrupted, skipped …
	Reason string // why it did not pass
}

// report is the part of ginkgo's JSON report that is read.
type report struct {
	SpecReports []struct {
		ContainerHierarchyTexts           []string
		LeafNodeText, LeafNodeType, State string
		NumAttempts                       int
		Failure                           struct{ Message string }
	}
}

// suite runs parts of upstream's suite against a cluster.
type suite struct {
	tools       *tools
	cluster     *cluster
	logs        string
	focus, skip string
	args        []string // further ones of e2e.test
	timeout     time.Duration
}

// run runs one part and returns the result of each test that ran. Failed tests are not an error.
func (s *suite) run(ctx context.Context, p part) ([]spec, error) {
	out := p.name + ".json"
	args := []string{fmt.Sprintf("--procs=%d", p.processes), "--timeout=" + s.timeout.String(),
		"--no-color", "--json-report=" + out,
		"--output-dir=" + s.logs, "--label-filter=" + p.labels}
	if s.focus != "" {
		args = append(args, "--focus="+s.focus)
	}
	if s.skip != "" {
		args = append(args, "--skip="+s.skip)
	}
	args = append(args, s.tools.path("e2e.test"), "--", "--provider=skeleton", "--kubeconfig="+s.cluster.kubeconfig(),
		"--kubectl-path="+s.tools.path("kubectl"))
	args = append(args, s.args...)
	log, err := os.Create(filepath.Join(s.logs, p.name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := s.cluster.first.command(ctx, s.tools.path("ginkgo"), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.logs, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// with the processes that it started
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	var failed *exec.ExitError
	if err := cmd.Run(); err != nil && (!errors.As(err, &failed) || ctx.Err() != nil) {
		return nil, fmt.Errorf("ginkgo: %w", errors.Join(err, ctx.Err()))
	}
	f, err := os.Open(filepath.Join(s.logs, out))
	if err != nil {
		return nil, fmt.Errorf("the %s part wrote no report, see %s: %w", p.name, log.Name(), err)
	}
	defer f.Close()
	return outcomes(f)
}

// outcomes parses ginkgo's report. An error means that the suite itself could not start.
func outcomes(r io.Reader) ([]spec, error) {
	var all []report
	if err := json.NewDecoder(r).Decode(&all); err != nil {
		return nil, fmt.Errorf("ginkgo's report: %w", err)
	}
	var out []spec
	for _, one := range all {
		for _, s := range one.SpecReports {
			name := strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " ")
			switch {
			case s.LeafNodeType != "It" && s.State != "passed" && s.State != "skipped":
				return nil, fmt.Errorf("%s %s: %s", s.LeafNodeType, s.State, s.Failure.Message)
			case s.LeafNodeType == "It" && s.NumAttempts > 0: // others were left out by the filters
				out = append(out, spec{Name: name, State: s.State, Reason: s.Failure.Message})
			}
		}
	}
	return out, nil
}
