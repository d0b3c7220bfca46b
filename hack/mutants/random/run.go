package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/test/mutants"
)

// runAll runs the drawn mutations of the packages and stores every result.
func runAll(ctx context.Context, packages []*pkg, o options, store *results) error {
	overlay, err := writeOverlay(packages, filepath.Join(o.build, "random-mutants"))
	if err != nil {
		return err
	}
	commit := version(ctx, o.commit)
	tests := map[string]*testBinary{}
	last := lastUse(packages)
	for i, p := range packages {
		sum := summary{Path: p.Path, Places: p.Places, NotCompiling: p.NotCompiling, Equivalent: p.Equivalent,
			Date: today(), Commit: commit, Seed: o.seed}
		for _, m := range p.drawn {
			sum.Keys = append(sum.Keys, m.key())
		}
		digest, err := p.digest()
		if err != nil {
			return err
		}
		if todo := due(p, o, store, digest); len(todo) > 0 {
			r := packageRun{pkg: p, parallel: o.parallel, digest: digest, store: store}
			for _, c := range p.chosen() {
				if tests[c.dir] == nil {
					if tests[c.dir], err = buildTest(ctx, c.dir, overlay); err != nil {
						return err
					}
				}
				if err := tests[c.dir].learn(ctx, c.name); err != nil {
					return err
				}
				r.tests = append(r.tests, testChoice{tests[c.dir], c.name})
			}
			if err := r.run(ctx, todo); err != nil {
				return err
			}
		}
		store.Packages[p.Path] = sum
		if err := store.save(); err != nil {
			return err
		}
		for dir, at := range last {
			if at == i && tests[dir] != nil {
				os.Remove(tests[dir].file)
			}
		}
		fmt.Println(line(sum, store.count(sum)))
	}
	return nil
}

// lastUse is the last package that needs the tests of a directory.
func lastUse(packages []*pkg) map[string]int {
	out := map[string]int{}
	for i, p := range packages {
		for _, c := range p.chosen() {
			out[c.dir] = i
		}
	}
	return out
}

// due is the mutations that have no result that holds still.
func due(p *pkg, o options, store *results, digest string) []*mutation {
	var out []*mutation
	for _, m := range p.drawn {
		r := store.Results[m.key()]
		noticed := r != nil && r.Outcome != survived && r.Outcome != notReached
		if r == nil || o.again || r.Digest != digest && !(o.left && noticed) {
			out = append(out, m)
		} else {
			r.Mutation = m
		}
	}
	return out
}

// chosen are the tests that are about the package: its own first, then a directory's in the order
// of packages.txt.
func (p *pkg) chosen() []chosen {
	var out []chosen
	for _, text := range append([]string{p.Dir}, p.Tests...) {
		dir, name, _ := strings.Cut(text, "@")
		files, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if len(files) == 0 || slices.ContainsFunc(out, func(c chosen) bool { return c.dir == dir }) {
			continue
		}
		if name == "" {
			name = ".*"
		}
		out = append(out, chosen{dir, regexp.MustCompile("^(" + name + ")$")})
	}
	return out
}

// digest is of the package's files and of its tests.
func (p *pkg) digest() (string, error) {
	h := sha256.New()
	dirs := []string{p.Dir}
	for _, c := range p.chosen() {
		dirs = append(dirs, c.dir)
	}
	for _, dir := range dirs {
		files, _ := filepath.Glob(filepath.Join(dir, "*.go"))
		data, _ := filepath.Glob(filepath.Join(dir, "testdata", "*"))
		for _, f := range append(files, data...) {
			raw, err := os.ReadFile(f)
			if errors.Is(err, os.ErrNotExist) || err != nil && isDir(f) {
				continue
			}
			if err != nil {
				return "", err
			}
			fmt.Fprintf(h, "%s %d\n%s", f, len(raw), raw)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil))[:16], nil
}

func isDir(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.IsDir()
}

// writeOverlay writes the changed files into a directory, and the file for -overlay, and returns
// its name. The names stay the same from run to run, so that the go command's cache serves.
func writeOverlay(packages []*pkg, in string) (string, error) {
	dir, err := filepath.Abs(in)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for _, p := range packages {
		own := filepath.Join(dir, "overlay", p.Dir)
		if err := os.MkdirAll(own, 0o755); err != nil {
			return "", err
		}
		abs, err := filepath.Abs(p.Dir)
		if err != nil {
			return "", err
		}
		for name, text := range p.texts(p.drawn) {
			file := filepath.Join(own, name)
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				return "", err
			}
			replace[filepath.Join(abs, name)] = file
		}
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, raw, 0o644)
}

// packageRun runs mutations of one package.
type packageRun struct {
	*pkg
	tests    []testChoice
	parallel int
	digest   string
	store    *results
}

func (r packageRun) run(ctx context.Context, todo []*mutation) error {
	work := make(chan *mutation)
	var mu sync.Mutex
	var errs []error
	var all sync.WaitGroup
	for range max(1, r.parallel) {
		all.Go(func() {
			for m := range work {
				start := time.Now()
				outcome, err := r.outcome(ctx, m)
				mu.Lock()
				if err != nil {
					errs = append(errs, err)
				} else {
					r.store.Results[m.key()] = &result{Mutation: m, Outcome: outcome, Digest: r.digest,
						Seconds: float64(time.Since(start).Milliseconds()) / 1000}
					err = r.store.save()
				}
				if err != nil {
					errs = append(errs, err)
				}
				if outcome == survived || outcome == notReached {
					fmt.Printf("   %s/%s (%s)\n", r.Dir, m, outcome)
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range todo {
		if ctx.Err() != nil {
			break
		}
		work <- m
	}
	close(work)
	all.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

// outcome runs the tests that reach the mutation, the quick ones first, until one notices it.
func (r packageRun) outcome(ctx context.Context, m *mutation) (string, error) {
	reached := false
	for _, slow := range []bool{false, true} {
		for _, t := range r.tests {
			var names []string
			took := time.Duration(0)
			for _, name := range t.reaching(m) {
				if t.name.MatchString(name) && (t.took[name] >= time.Second) == slow {
					names = append(names, name)
					took += t.took[name]
				}
			}
			if len(names) == 0 {
				continue
			}
			reached = true
			got, err := t.run(ctx, names, "GANTRY_MUTANT="+markOf(m), 5*time.Second+4*took)
			if err != nil || got != survived {
				return got, err
			}
		}
	}
	if !reached {
		return notReached, nil
	}
	return survived, nil
}

func markOf(m *mutation) string { return fmt.Sprintf("%s#%d", m.Package, m.id) }

// testChoice is those tests of a directory that are about a package.
type testChoice struct {
	*testBinary
	name *regexp.Regexp
}

// testBinary is the compiled tests of a directory, with the mutations of all packages of the run.
type testBinary struct {
	dir, file string
	flags     []string
	names     []string                   // of its tests
	learnt    map[string]bool            // tests that ran once without mutations
	took      map[string]time.Duration   // by test, of those that pass
	reach     map[string]map[string]bool // marks of mutations, by test
}

// buildTest compiles the tests of a directory.
func buildTest(ctx context.Context, dir, overlay string) (*testBinary, error) {
	t := &testBinary{dir: dir, learnt: map[string]bool{}, took: map[string]time.Duration{},
		reach: map[string]map[string]bool{},
		file:  filepath.Join(filepath.Dir(overlay), strings.ReplaceAll(dir, "/", "_")+".test")}
	c := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", t.file,
		"./"+dir)
	c.Env = environment()
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compiling the tests of %s: %w\n%s", dir, err, out)
	}
	if mutants.UsesRapid(dir) {
		t.flags = []string{"-rapid.nofailfile", "-rapid.seed=1"}
	}
	c = exec.CommandContext(ctx, t.file, "-test.list", "^Test")
	c.Dir = dir
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the tests of %s: %w", dir, err)
	}
	for name := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(name, "Test") {
			t.names = append(t.names, name)
		}
	}
	return t, nil
}

// learn runs each of the tests alone, without mutations, to know what it reaches. Tests that fail
// are named and left out; what ran before is known.
func (t *testBinary) learn(ctx context.Context, which *regexp.Regexp) error {
	for _, name := range t.names {
		if t.learnt[name] || !which.MatchString(name) {
			continue
		}
		t.learnt[name] = true
		if err := t.learnOne(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (t *testBinary) learnOne(ctx context.Context, name string) error {
	marks := t.file + ".reached"
	defer os.Remove(marks)
	start := time.Now()
	got, err := t.run(ctx, []string{name}, "GANTRY_MUTANT_REACHED="+marks, 3*time.Minute)
	if err != nil {
		return err
	}
	if got != survived {
		fmt.Printf("   %s.%s does not pass without mutations (%s): left out\n", t.dir, name, got)
		return nil
	}
	t.took[name], t.reach[name] = time.Since(start), map[string]bool{}
	raw, err := os.ReadFile(marks)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for mark := range strings.FieldsSeq(string(raw)) {
		t.reach[name][mark] = true
	}
	return nil
}

func (t *testBinary) reaching(m *mutation) []string {
	var out []string
	for name, marks := range t.reach {
		if marks[markOf(m)] {
			out = append(out, name)
		}
	}
	sort.Strings(out)
	return out
}

// run runs tests in their directory with one more environment variable.
func (t *testBinary) run(ctx context.Context, names []string, env string, within time.Duration) (string, error) {
	args := append([]string{"-test.failfast", "-test.timeout", within.String(), "-test.run",
		"^(" + strings.Join(names, "|") + ")$"}, t.flags...)
	ctx, stop := context.WithTimeout(ctx, within+10*time.Second)
	defer stop()
	c := exec.CommandContext(ctx, t.file, args...)
	ownGroup(c)
	c.Dir = t.dir
	c.Env = append(environment(), "GANTRY_NO_CONTAINERS=1", expect.PatienceVariable+"="+(within/2).String(), env)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	if errors.Is(ctx.Err(), context.Canceled) {
		return "", ctx.Err()
	}
	exit := (*exec.ExitError)(nil)
	switch {
	case err == nil:
		return survived, nil
	case ctx.Err() != nil:
		return hung, nil
	case !errors.As(err, &exit):
		return "", err
	}
	return outcomeOf(out.String()), nil
}

// outcomeOf says how tests failed, by what they printed.
func outcomeOf(output string) string {
	switch {
	case strings.Contains(output, "panic: test timed out after"):
		return hung
	case strings.Contains(output, "\npanic: ") || strings.HasPrefix(output, "panic: ") ||
		strings.Contains(output, "fatal error: "):
		return panicked
	}
	return killed
}
