package cli

import (
	"errors"
	"os"
	"path/filepath"
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
