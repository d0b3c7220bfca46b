package main

import (
	"bytes"
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
	failed, said, err := run(strings.NewReader(log), &out, time.Now())
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
	_, _, err := run(strings.NewReader(`{"Action":"output","Package":"m/a","Test":"TestX","Output":"=== RUN   TestX\n"}
{"Action":"output","Package":"m/a","Test":"TestX","Output":"    x_test.go:3: needs root: runs containers\n"}
{"Action":"skip","Package":"m/a","Test":"TestX"}
{"Action":"skip","Package":"m/b","Test":"TestY"}
`), &out, time.Now())
	want := "skipped on this machine:\n  needs root: runs containers: a.TestX\n  no reason given: b.TestY\n"
	if err != nil || !strings.Contains(out.String(), want) {
		t.Errorf("got %v and\n%swant\n%s", err, out.String(), want)
	}
}

// What took longest starts first; unknown packages are ordered by kind.
func TestOrder(t *testing.T) {
	took, err := times(strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	got := order([]string{"m/c", "m/a", "m/new", "m/b", "m/test/e2e"}, took)
	if want := []string{"m/test/e2e", "m/b", "m/a", "m/c", "m/new"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
