package up

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/test/process"
)

// Roles are processes of Gantry that a test runs beside each other: `gantry up`, `gantry server`,
// `gantry kubelet` and so on. Its methods belong to the goroutine of the test.
type Roles struct {
	TB   testing.TB
	Bin  string             // folder of built programs
	Log  string             // a file whose end is in reports too; may be empty
	Wrap []string           // a command that the program is an argument of, such as nsenter; may be empty
	All  []*process.Process // in the order of their start
}

// Command is a call of the program.
func (r *Roles) Command(args ...string) *exec.Cmd {
	all := append(append(append([]string{}, r.Wrap...), filepath.Join(r.Bin, "gantry")), args...)
	return exec.Command(all[0], all[1:]...)
}

// Start runs a role until End, or until the test ends the process.
func (r *Roles) Start(args ...string) *process.Process {
	r.TB.Helper()
	var logs []string
	if r.Log != "" {
		logs = []string{r.Log}
	}
	p, err := process.Start(r.Command(args...), logs...)
	if err != nil {
		r.TB.Fatal(err)
	}
	r.All = append(r.All, p)
	return p
}

// Run runs a command to its end; one that fails ends the test.
func (r *Roles) Run(args ...string) {
	r.TB.Helper()
	if out, err := r.Command(args...).CombinedOutput(); err != nil {
		r.TB.Fatalf("gantry %s: got error %v, want none\n%s", strings.Join(args, " "), err, out)
	}
}

// End ends what runs, the last one first. A process that had ended already, or does not end, is a
// failure of the test; after another failure the log has the reports of all.
func (r *Roles) End() {
	r.TB.Helper()
	for i := len(r.All) - 1; i >= 0; i-- {
		p := r.All[i]
		if r.TB.Failed() {
			r.TB.Log(p.Report())
		}
		err := p.Failed()
		if err == nil {
			if err = p.End(time.Minute); errors.As(err, new(*exec.ExitError)) {
				err = nil // it ended, with whatever code
			}
		}
		if err != nil && !r.TB.Failed() {
			r.TB.Error(err)
		}
	}
	r.All = nil
}

// Failed is an error with a report when a process has ended that nobody asked to.
func (r *Roles) Failed() error {
	for _, p := range r.All {
		if err := p.Failed(); err != nil {
			return err
		}
	}
	return nil
}

// Eventually polls until ok returns true. It fails with what ok saw last, within the time at most,
// and at once when one of the processes has ended that nobody asked to; what describes it.
func Eventually(t testing.TB, within time.Duration, what string, ok func() (saw string, ok bool),
	processes ...interface{ Failed() error }) {
	t.Helper()
	expect.Poll(t, 100*time.Millisecond, within, what, func() error {
		saw, done := ok()
		if done {
			return nil
		}
		for _, p := range processes {
			if err := p.Failed(); err != nil {
				t.Fatalf("%s: got error %v, want none", what, err)
			}
		}
		return fmt.Errorf("last: %s", saw)
	})
}

// Processes are those with this text in their command line, as its file and content.
func Processes(text string) (out []string) {
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range procs {
		raw, _ := os.ReadFile(p)
		if bytes.Contains(raw, []byte(text)) {
			out = append(out, p+" "+string(bytes.ReplaceAll(raw, []byte{0}, []byte{' '})))
		}
	}
	return out
}
