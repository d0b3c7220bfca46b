package options

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/scheduler/replay"
)

func TestRecordingStopsAtItsLimit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "decisions")
	d := &replay.Decision{}
	line, err := d.Line()
	if err != nil {
		t.Fatal(err)
	}
	r := &DecisionRecorder{path: file, limit: resource.NewQuantity(int64(2*len(line)+1), resource.DecimalSI).String()}
	put, err := r.OpenFile()
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		put(d)
	}
	if raw, err := os.ReadFile(file); err != nil || len(raw) != 2*len(line) || r.file != nil {
		t.Errorf("%d bytes of two decisions with %d, open: %v, %v", len(raw), 2*len(line), r.file != nil, err)
	}
	for _, limit := range []string{"", "-1", "much"} {
		if _, err := (&DecisionRecorder{flag: "--record-decisions", path: file, limit: limit}).OpenFile(); err == nil ||
			!strings.Contains(err.Error(), "--record-decisions-limit") {
			t.Errorf("%q: got %v, want an error that names the flag", limit, err)
		}
	}
	if put, err := (&DecisionRecorder{}).OpenFile(); put != nil || err != nil {
		t.Errorf("without a file: %v", err)
	}
}
