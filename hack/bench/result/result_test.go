package result

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// A written run is read back, with one line per figure.
func TestRunsAreReadAsTheyWereWritten(t *testing.T) {
	want := Here("start", "")
	want.Figures = []Figure{
		Durations("new directory/readyz", []time.Duration{3 * time.Millisecond, time.Millisecond,
			2 * time.Millisecond}),
		Value("gantry up/RSS", "MiB", 207),
	}
	file := filepath.Join(t.TempDir(), "new", "start.json")
	if err := want.Write(file); err != nil {
		t.Fatal(err)
	}
	got, err := Read(file)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	raw, err := want.encode()
	line := `    {"name":"new directory/readyz","unit":"ms","samples":3,"min":1,"median":2,"p99":3},` + "\n"
	if err != nil || !strings.Contains(string(raw), line) {
		t.Errorf("got %s, %v, want a line %s", raw, err, line)
	}
	for name, v := range map[string]string{
		"commit": got.Commit, "machine": got.Machine, "load": got.Load, "command": got.Command,
	} {
		if v == "" {
			t.Errorf("got no %s, want one", name)
		}
	}
}

// A figure without samples has no values, so that the page says "not measured".
func TestFiguresOfNoSamplesHaveNoValues(t *testing.T) {
	if f := Durations("it", nil); f.Median != nil || f.Samples != 0 {
		t.Errorf("got %+v, want no median", f)
	}
	if _, ok := (Run{}).Find("it"); ok {
		t.Error("got a figure of an empty run, want none")
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.0123: "0.012", 1: "1", 1.25: "1.2", 12.6: "13", 999: "999", 1000: "1,000", 1234567: "1,234,567",
	} {
		if got := Number(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
}

func TestKernelVersionHasTwoNumbers(t *testing.T) {
	for release, want := range map[string]string{"6.18.44-cloud-amd64": "6.18", "6.1": "6.1", "7": "7", "": ""} {
		if got := kernelVersion(release); got != want {
			t.Errorf("kernelVersion(%q) = %q, want %q", release, got, want)
		}
	}
}
