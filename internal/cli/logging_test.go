package cli

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

// Every line of every severity is in gantry.log once.
func TestEachLogLineIsWrittenOnce(t *testing.T) {
	dir := t.TempDir()
	l := Logging{verbosity: 1}
	done, err := l.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer klog.LogToStderr(true)
	klog.Info("plain information")
	klog.Warning("plain warning")
	klog.Error("plain error")
	klog.ErrorS(errors.New("why"), "structured error")
	klog.Background().Error(errors.New("why"), "contextual error")
	done()
	raw, err := os.ReadFile(filepath.Join(dir, "gantry.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"plain information", "plain warning", "plain error", "structured error",
		"contextual error"} {
		if n := strings.Count(string(raw), line); n != 1 {
			t.Errorf("%q is written %d times:\n%s", line, n, raw)
		}
	}
}

// A line of a component begins with severity, date, time, thread and place; then comes the message
// in quotes, and what belongs to it: I0501 09:14:22.881000 4 file.go:225] "Message" key="value".
//
// row: OPS-10
func TestLinesOfTheLogHaveTheFormOfKlog(t *testing.T) {
	dir := t.TempDir()
	l := Logging{verbosity: 2}
	done, err := l.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer klog.LogToStderr(true)
	klog.InfoS("Message", "pod", klog.KRef("default", "web"), "count", 3)
	klog.Background().V(2).Info("Detail", "why", "two words")
	klog.Background().V(4).Info("Not at this verbosity")
	klog.ErrorS(errors.New("no room"), "Failed", "node", "n1")
	done()
	raw, err := os.ReadFile(filepath.Join(dir, "gantry.log"))
	if err != nil {
		t.Fatal(err)
	}
	const head = `\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ logging_test\.go:\d+\] `
	want := []string{`^I` + head + `"Message" pod="default/web" count=3$`, `^I` + head + `"Detail" why="two words"$`,
		`^E` + head + `"Failed" err="no room" node="n1"$`}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	if len(lines) != len(want) {
		t.Fatalf("got %d lines, want %d:\n%s", len(lines), len(want), raw)
	}
	for i, form := range want {
		if !regexp.MustCompile(form).MatchString(lines[i]) {
			t.Errorf("line %d: got %s, want the form %s", i+1, lines[i], form)
		}
	}
}
