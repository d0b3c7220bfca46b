package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const product = `package p

import (
	"errors"
	"fmt"
)

type kind string

const small kind = "small"

var errLarge = errors.New("large")

// Of tells the kinds of numbers.
func Of(n, most int64) ([]kind, error) {
	var out []kind
	if n > most {
		return nil, errLarge
	}
	for i := range 3 {
		if i == 1 && n >= 0 {
			continue
		}
		out = append(out, kind(fmt.Sprint("k", i)))
	}
	if n < 10 {
		out = append(out, small)
	}
	sortKinds(out)
	return out, nil
}

func sortKinds(k []kind) {
	if len(k) > 1 {
		k[0], k[1] = k[1], k[0]
	}
}

// Even is for no test.
func Even(n int) bool {
	switch {
	case n%2 == 0:
		return true
	default:
		return false
	}
}

type number struct{ n int64 }

func (x *number) Raise(by int64) *number {
	x.n += by
	if by < 0 {
		x.n = 0
		return x
	}
	return x
}
`

const productTest = `package p

import "testing"

func TestOf(t *testing.T) {
	got, err := Of(5, 10)
	if err != nil || len(got) != 3 || got[0] != "k2" || got[1] != "k0" || got[2] != small {
		t.Errorf("got %q %v", got, err)
	}
	if _, err := Of(12, 10); err != errLarge {
		t.Errorf("got %v", err)
	}
	if got, err := Of(-1, 10); len(got) != 4 || err != nil {
		t.Errorf("got %q %v", got, err)
	}
}

func TestRaiseLooksAtNothing(t *testing.T) { (&number{}).Raise(3) }

func TestBroken(t *testing.T) { t.Fatal("always") }
`

// module writes a module of one package, goes there and loads it.
func module(t *testing.T) *pkg {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"go.mod": "module example.org/m\n\ngo 1.25\n", "p/p.go": product,
		"p/p_test.go": productTest, "p/other.go": "package p\n\nfunc other(a int) bool { return a == 1 }\n"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := load(t.Context(), []target{{Dir: "p", Files: "p.go"}})
	if err != nil || len(got) != 1 {
		t.Fatalf("got %d packages, %v, want one", len(got), err)
	}
	return got[0]
}

// TestPlaces finds every kind of change, each where it is, and none in the file that is not meant.
func TestPlaces(t *testing.T) {
	p := module(t)
	all := p.mutations()
	left, err := p.compiling(all)
	if err != nil || len(left) != len(all) {
		t.Fatalf("%d of %d mutations compile, %v, want all", len(left), len(all), err)
	}
	var got []string
	for _, m := range left {
		got = append(got, m.String())
	}
	for _, want := range []string{
		`p.go:17 Of: condition negated: n > most`,
		`p.go:17 Of: bound moved: n > most`,
		`p.go:18 Of: error to nil: errLarge`,
		`p.go:18 Of: return left out: return nil, errLarge`,
		`p.go:20 Of: number raised: 3 in range 3`,
		`p.go:21 Of: && and || exchanged: i == 1 && n >= 0`,
		`p.go:21 Of: == and != exchanged: i == 1`,
		`p.go:22 Of: continue left out: continue`,
		`p.go:24 Of: string changed: "k" in fmt.Sprint("k", i)`,
		`p.go:24 Of: appended dropped: append(out, kind(fmt.Sprint("k", i)))`,
		`p.go:29 Of: call left out: sortKinds(out)`,
		`p.go:30 Of: result to nil: out`,
		`p.go:35 sortKinds: assignment left out: k[0], k[1] = k[1], k[0]`,
		`p.go:43 Even: result flipped: true`,
		`p.go:52 number.Raise: assignment left out: x.n += by`,
		`p.go:55 number.Raise: return left out: return x`,
	} {
		if !slices.ContainsFunc(got, func(s string) bool {
			return s == want || strings.Contains(want, "range 3") &&
				strings.Contains(s, "number raised: 3")
		}) {
			t.Errorf("got\n%s\nwant among them: %s", strings.Join(got, "\n"), want)
		}
	}
	for _, never := range []string{"other.go", "return left out: return true", "errors.New("} {
		if at := slices.IndexFunc(got, func(s string) bool { return strings.Contains(s, never) }); at >= 0 &&
			!strings.Contains(got[at], "string changed") {
			t.Errorf("got %s, want nothing with %q", got[at], never)
		}
	}
}

// TestOutcomes runs all mutations of a small package: what its tests see is killed, what they do
// not look at survives, what they do not reach is not run.
func TestOutcomes(t *testing.T) {
	p := module(t)
	p.drawn, _ = p.compiling(p.mutations())
	store, err := openResults("build/random-mutants.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := runAll(t.Context(), []*pkg{p}, options{parallel: 2, build: "build"}, store); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, r := range store.Results {
		got[r.Mutation.String()] = r.Outcome
	}
	for m, want := range map[string]string{
		`p.go:17 Of: condition negated: n > most`:                             killed,
		`p.go:17 Of: bound moved: n > most`:                                   survived,
		`p.go:18 Of: error to nil: errLarge`:                                  killed,
		`p.go:21 Of: && and || exchanged: i == 1 && n >= 0`:                   killed,
		`p.go:24 Of: appended dropped: append(out, kind(fmt.Sprint("k", i)))`: killed,
		`p.go:27 Of: appended dropped: append(out, small)`:                    killed,
		`p.go:29 Of: call left out: sortKinds(out)`:                           killed,
		`p.go:43 Even: result flipped: true`:                                  notReached,
		`p.go:52 number.Raise: assignment left out: x.n += by`:                survived,
		`p.go:57 number.Raise: result to nil: x (2)`:                          survived,
		`p.go:53 number.Raise: bound moved: by < 0`:                           survived,
	} {
		if got[m] != want {
			t.Errorf("%s: got %q, want %q", m, got[m], want)
		}
	}
	again, err := openResults("build/random-mutants.json")
	if err != nil || len(again.Results) != len(p.drawn) {
		t.Errorf("got %d results from the file, %v, want %d", len(again.Results), err, len(p.drawn))
	}
	if t.Failed() {
		return
	}
	digest, err := p.digest()
	if todo := due(p, options{}, again, digest); len(todo) != 0 || err != nil {
		t.Errorf("a second run has %d mutations to run, %v, want 0", len(todo), err)
	}
	if todo := due(p, options{left: true}, again, "else"); len(todo) == 0 || len(todo) == len(p.drawn) {
		t.Errorf("after a change with -left got %d of %d to run, want those that survived", len(todo), len(p.drawn))
	}
}

// TestSampleIsSteady draws the same mutations after one has gone, but for one.
func TestSampleIsSteady(t *testing.T) {
	p := module(t)
	all := p.mutations()
	first := sample(all, 7, 10)
	second := sample(slices.DeleteFunc(slices.Clone(all), func(m *mutation) bool { return m == first[3] }), 7, 10)
	same := 0
	for _, m := range second {
		if slices.Contains(first, m) {
			same++
		}
	}
	if len(first) != 10 || same != 9 {
		t.Errorf("got %d drawn, %d of them again, want 10 and 9", len(first), same)
	}
	if other := sample(all, 8, 10); slices.Equal(first, other) {
		t.Error("another seed draws the same")
	}
}

// TestOutcomeOfOutput tells an assertion from a panic and a hang.
func TestOutcomeOfOutput(t *testing.T) {
	for output, want := range map[string]string{
		"--- FAIL: TestA\n    a_test.go:1: got 1, want 2\nFAIL\n": killed,
		"panic: runtime error: index out of range\n":              panicked,
		"--- FAIL: TestA\npanic: nil map [recovered]\n":           panicked,
		"fatal error: all goroutines are asleep - deadlock!\n":    panicked,
		"panic: test timed out after 5s\n":                        hung,
	} {
		if got := outcomeOf(output); got != want {
			t.Errorf("%q: got %s, want %s", output, got, want)
		}
	}
}

// TestEquivalent leaves out what is listed, and names entries that fit nothing.
func TestEquivalent(t *testing.T) {
	p := module(t)
	all := p.mutations()
	same := equivalent{
		{Package: p.Path, File: "p.go", Func: "Of", Kind: "error to nil", Text: "errLarge", Why: "x"},
		{Package: p.Path, File: "p.go", Func: "Of", Kind: "error to nil", Text: "errGone", Why: "x"},
	}
	if got := same.without(p.Path, all); len(got) != len(all)-1 {
		t.Errorf("got %d of %d, want one left out", len(got), len(all))
	}
	if err := same.stale([]*pkg{p}); err == nil || !strings.Contains(err.Error(), "errGone") ||
		strings.Contains(err.Error(), "errLarge") {
		t.Errorf("got %v, want an error that names errGone alone", err)
	}
}

// TestPage keeps the lines of packages that were not run.
func TestPage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	s := &results{Results: map[string]*result{"a": {Outcome: killed}, "b": {Outcome: hung}, "c": {Outcome: notReached}},
		Packages: map[string]summary{modulePath + "internal/b": {Path: modulePath + "internal/b",
			Keys: []string{"a", "b", "c"}, Equivalent: 2, Date: "2026-01-02", Commit: "0123", Seed: 1}}}
	old := "| internal/a | 1 | 100 % | 0 | 0 | 0 | x, y, 1 |\n| internal/b | old |\n"
	if err := os.WriteFile(file, []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writePage(file, s); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(file)
	want := "| --- | --: | --: | --: | --: | --: | --- |\n| internal/a | 1 | 100 % | 0 | 0 | 0 | x, y, 1 |\n" +
		"| internal/b | 3 | 67 % | 1 | 1 | 2 | 2026-01-02, 0123, 1 |\n"
	if !strings.HasSuffix(string(got), want) {
		t.Errorf("got\n%s\nwant at its end\n%s", got, want)
	}
}
