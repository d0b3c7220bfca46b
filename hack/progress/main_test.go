package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const log = `{"Action":"output","Package":"m/a","Test":"TestX","Output":"the reason\n"}
{"Action":"fail","Package":"m/a","Test":"TestX","Elapsed":1}
{"Action":"output","Package":"m/a","Output":"FAIL\n"}
{"Action":"fail","Package":"m/a","Elapsed":5}
{"Action":"pass","Package":"m/b","Test":"TestY","Elapsed":9}
{"Action":"pass","Package":"m/b","Elapsed":7}
{"Action":"pass","Package":"m/c","Elapsed":0.1}
`

// What failed is named, and its output is kept until the end of the run.
func TestFailuresAreNamedAndKept(t *testing.T) {
	var out bytes.Buffer
	failed, said, err := run(&out, time.Now(), strings.NewReader(log))
	if err != nil || !slices.Equal(failed, []string{"m/a\n"}) {
		t.Errorf("got %q %v, want no error and failed %v", failed, err, []string{"m/a\n"})
	}
	for _, text := range []string{said, out.String()} {
		if !strings.Contains(text, "FAIL  m/a") || !strings.Contains(text, "the reason") {
			t.Errorf("lacks the failure:\n%s", text)
		}
	}
	if strings.Contains(said, "m/b") {
		t.Errorf("tells of what passed:\n%s", said)
	}
}

// Skipped tests are told at the end with their reason.
func TestSkipsArePrintedWithTheirReason(t *testing.T) {
	var out bytes.Buffer
	_, _, err := run(&out, time.Now(), strings.NewReader(`{"Action":"output","Package":"m/a","Test":"TestX","Output":"=== RUN   TestX\n"}
{"Action":"output","Package":"m/a","Test":"TestX","Output":"    x_test.go:3: needs root: runs containers\n"}
{"Action":"skip","Package":"m/a","Test":"TestX"}
{"Action":"skip","Package":"m/b","Test":"TestY"}
`))
	want := "skipped on this machine:\n  needs root: runs containers: a.TestX\n  no reason given: b.TestY\n"
	if err != nil || !strings.Contains(out.String(), want) {
		t.Errorf("got %v and\n%swant\n%s", err, out.String(), want)
	}
}

// Logs that are read at once make one report.
func TestSeveralLogsMakeOneReport(t *testing.T) {
	var out bytes.Buffer
	failed, _, err := run(&out, time.Now(), strings.NewReader(log),
		strings.NewReader(`{"Action":"fail","Package":"m/d","Elapsed":5}`))
	slices.Sort(failed)
	if want := []string{"m/a\n", "m/d\n"}; err != nil || !slices.Equal(failed, want) {
		t.Errorf("got %q %v, want no error and %q", failed, err, want)
	}
	if want := "packages: 2 passed, 2 failed\n"; !strings.Contains(out.String(), want) {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

// What took longest starts first; packages that did not run here are ordered by what they cost
// elsewhere, and by kind where that is not known.
func TestOrder(t *testing.T) {
	took, err := times(strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	const top = "github.com/a/m/"
	got := order([]string{"m/c", "m/a", top + "internal/new", "m/b", top + "test/e2e", top + "internal/known", "m/f"},
		took, map[string]cost{"internal/known": {seconds: 6}})
	want := []string{top + "test/e2e", "m/b", top + "internal/known", "m/a", "m/c", top + "internal/new", "m/f"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Each package is in one lane: those that leave the processor to others for long are waiting.
func TestLane(t *testing.T) {
	measured := map[string]cost{"test/waits": {30, 14}, "test/works": {30, 16}, "internal/quick": {4, 0}}
	for pkg, want := range map[string]lane{"waits": waiting, "works": computing, "unmeasured": waiting} {
		if got := costOf("github.com/a/m/test/"+pkg, measured).lane(); got != want {
			t.Errorf("test/%s: got %s, want %s", pkg, got, want)
		}
	}
	for _, pkg := range []string{"quick", "unmeasured"} {
		if got := costOf("github.com/a/m/internal/"+pkg, measured).lane(); got != computing {
			t.Errorf("internal/%s: got %s, want %s", pkg, got, computing)
		}
	}
}

// The costs that are known can be read, and are of directories that exist.
func TestKnownCosts(t *testing.T) {
	measured, err := readCosts(strings.NewReader(knownCosts))
	if err != nil {
		t.Fatal(err)
	}
	for dir, c := range measured {
		if _, err := os.Stat(filepath.Join("../..", dir)); err != nil || c.seconds < short {
			t.Errorf("%s: got %v and %.1f seconds, want a directory and at least %d seconds", dir, err, c.seconds,
				short)
		}
	}
}

// A program's cost is written with its directory, and its exit code is handed on.
func TestMeasure(t *testing.T) {
	file := filepath.Join(t.TempDir(), "costs.txt")
	for want := range 2 {
		if code, err := measure(file, "/bin/sh", "-c", fmt.Sprintf("exit %d", want)); err != nil || code != want {
			t.Errorf("got %d, %v, want %d", code, err, want)
		}
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	measured, err := readCosts(bytes.NewReader(raw))
	if _, ok := measured["hack/progress"]; err != nil || !ok || len(measured) != 1 {
		t.Errorf("got %q, %v, want two lines of hack/progress", raw, err)
	}
}
