package mutants

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gantry-project/gantry/test/expect"
)

// Runner compiles and runs mutations. It may be used by several goroutines at once.
type Runner struct {
	// Root is the top of the source tree, absolute.
	Root string
	// Bin is the directory of what `make build` made, for mutations with Containers.
	Bin string
}

// Result is what came of one mutation. Output is the end of what its tests or the compiler printed,
// unless it was killed.
type Result struct {
	ID          string  `json:"id"`
	Outcome     Outcome `json:"outcome"`
	Test        string  `json:"test,omitempty"`
	Fingerprint string  `json:"fingerprint"`
	Seconds     float64 `json:"seconds"`
	Output      string  `json:"-"`
}

// Run compiles the mutation and runs its tests. The error is for what is no outcome: a text that is
// not found, a program that cannot be run, ctx that ended.
func (r Runner) Run(ctx context.Context, m Mutation) (Result, error) {
	start := time.Now()
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return Result{}, err
	}
	defer os.RemoveAll(dir)
	print, err := Fingerprint(r.Root, m)
	if err != nil {
		return Result{}, err
	}
	out := Result{ID: m.ID(), Fingerprint: print}
	overlay, err := m.overlay(r.Root, dir)
	if err != nil {
		return Result{}, err
	}
	environment := "GANTRY_NO_CONTAINERS=1"
	if m.Containers {
		bin, err := r.programs(ctx, dir, overlay)
		if err != nil {
			out.Outcome, out.Output = NotCompiled, err.Error()
			return out, ctx.Err()
		}
		environment = "GANTRY_BIN=" + bin
	}
	built := map[string]string{} // package directory: test binary
	for _, t := range m.Tests {
		if built[t.In] == "" {
			file := filepath.Join(dir, fmt.Sprintf("%d.test", len(built)))
			if said, err := r.testBinary(ctx, overlay, file, t.In); err != nil {
				out.Outcome, out.Test, out.Output = NotCompiled, t.In, tail(said)
				return out, ctx.Err()
			}
			built[t.In] = file
		}
		said, err := r.test(ctx, built[t.In], m, t, environment)
		if err != nil {
			return Result{}, err
		}
		out.Outcome, out.Output = Decide(said, t)
		if out.Outcome != Killed {
			out.Test, out.Output = t.In+"."+t.Run, tail(out.Output)
			break
		}
	}
	out.Seconds = float64(time.Since(start).Milliseconds()) / 1000
	if out.Outcome == Killed {
		out.Output = ""
	}
	return out, ctx.Err()
}

// testBinary compiles the tests of a package, and returns what the compiler said.
func (r Runner) testBinary(ctx context.Context, overlay, file, in string) (string, error) {
	return r.goCommand(ctx, "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", file, "./"+in)
}

// Passes runs the named tests without the mutation: the first that does not pass is the error.
func (r Runner) Passes(ctx context.Context, m Mutation) error {
	for _, t := range m.Tests {
		said, err := r.goCommand(ctx, "test", "-count=1", "-vet=off", "-timeout", m.Timeout().String(),
			"-run", runPattern(t.Run), "./"+t.In)
		if err != nil {
			return fmt.Errorf("%s: %s.%s fails without the mutation: %s", m.ID(), t.In, t.Run, tail(said))
		}
	}
	return nil
}

func (r Runner) goCommand(ctx context.Context, args ...string) (string, error) {
	c := command(ctx, "go", args...)
	c.Dir = r.Root
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := c.CombinedOutput()
	return string(out), err
}

// programs makes a directory with the mutated gantry and links to all else that containers need.
func (r Runner) programs(ctx context.Context, dir, overlay string) (string, error) {
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return "", err
	}
	if said, err := r.goCommand(ctx, "build", "-ldflags=-s -w", "-overlay", overlay, "-o", filepath.Join(bin, "gantry"),
		"./cmd/gantry"); err != nil {
		return "", errors.New(tail(said))
	}
	others, err := os.ReadDir(r.Bin)
	if err != nil {
		return "", err
	}
	for _, o := range others {
		if o.Name() == "gantry" {
			continue
		}
		if err := os.Symlink(filepath.Join(r.Bin, o.Name()), filepath.Join(bin, o.Name())); err != nil {
			return "", err
		}
	}
	return bin, nil
}

// test runs one test of a compiled binary in its package's directory, with more variables of the
// environment. A test that fails is no error.
func (r Runner) test(ctx context.Context, binary string, m Mutation, t Test, environment ...string) (
	[]event, error) {
	dir := filepath.Join(r.Root, t.In)
	args := []string{"tool", "test2json", binary, "-test.v=test2json", "-test.timeout", m.Timeout().String(),
		"-test.run", runPattern(t.Run)}
	if UsesRapid(dir) {
		args = append(args, "-rapid.nofailfile")
	}
	c := command(ctx, "go", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "CGO_ENABLED=0", expect.PatienceVariable+"="+(m.Timeout()/2).String())
	c.Env = append(c.Env, environment...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	return readEvents(&out)
}

// UsesRapid tells whether the tests of a directory have rapid's flags.
func UsesRapid(dir string) bool {
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
	for _, f := range files {
		if raw, err := os.ReadFile(f); err == nil && bytes.Contains(raw, []byte(`"pgregory.net/rapid"`)) {
			return true
		}
	}
	return false
}

// command is ended with all its children when ctx ends.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 5 * time.Second
	return c
}

// tail is the end of a text: enough to see what failed.
func tail(s string) string {
	const most = 2000
	s = strings.TrimSpace(s)
	if len(s) > most {
		s = "…" + s[len(s)-most:]
	}
	return cmp.Or(s, "(no output)")
}
