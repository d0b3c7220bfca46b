// Package result stores what a benchmark measured: one JSON file for a run, with one line for a
// figure.
//
// hack/bench and hack/schedperf write such files into docs/performance; hack/bench renders the page
// docs/performance/README.md from them. A file holds its part's last run: a new run replaces it,
// and docs/performance/history.md has a line for what a change of the code changed.
package result

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Run is one run of a benchmark.
type Run struct {
	Part    string `json:"part"`    // by its name on the command line; empty: evidence of the history
	Commit  string `json:"commit"`  // of the source that was measured, with "+changes" where it was changed since
	Machine string `json:"machine"` // cores, processor, memory, kernel
	Date    string `json:"date"`    // day, or day and time (RFC 3339), when the run began
	Load    string `json:"load"`    // load average of the last minute before the run, which other work may have caused
	Command string `json:"command"`
	Beside  string `json:"beside,omitempty"` // the program whose figures begin with "other/", measured in the same run

	// Transcribed: no run wrote this file. Its figures were copied once from a page or an older
	// file, which Source names; commit and date are those of the commit that recorded them.
	Transcribed bool   `json:"transcribed,omitempty"`
	Source      string `json:"source,omitempty"`

	Figures []Figure `json:"figures"`
}

// Figure is one quantity. Of samples it has least, median and 99th percentile; what is measured
// once has a value.
type Figure struct {
	Name    string   `json:"name"` // unique in its run; parts of the name are separated by "/"
	Unit    string   `json:"unit"` // ms, MiB, % of a core, /s, …
	Samples int      `json:"samples,omitempty"`
	Value   *float64 `json:"value,omitempty"`
	Min     *float64 `json:"min,omitempty"`
	Median  *float64 `json:"median,omitempty"`
	P99     *float64 `json:"p99,omitempty"`
	Note    string   `json:"note,omitempty"`
}

// Value returns a figure that was measured once, or counted.
func Value(name, unit string, v float64) Figure {
	return Figure{Name: name, Unit: unit, Value: new(Round(v))}
}

// Round rounds to five significant digits.
func Round(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	unit := math.Pow(10, 4-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*unit) / unit
}

// Durations returns a figure of samples, in milliseconds; without samples it has no values.
func Durations(name string, samples []time.Duration) Figure {
	var in []float64
	for _, d := range samples {
		in = append(in, Milliseconds(d))
	}
	return Samples(name, "ms", in)
}

// Samples returns the figure of samples of any unit; without samples it has no values.
func Samples(name, unit string, samples []float64) Figure {
	f := Figure{Name: name, Unit: unit, Samples: len(samples)}
	if len(samples) == 0 {
		return f
	}
	sorted := slices.Sorted(slices.Values(samples))
	at := func(share float64) *float64 {
		return new(Round(sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]))
	}
	f.Min, f.Median, f.P99 = at(0), at(0.5), at(0.99)
	return f
}

// Milliseconds returns a duration in milliseconds.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Find returns the figure of that name.
func (r Run) Find(name string) (Figure, bool) {
	i := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Name == name })
	if i < 0 {
		return Figure{}, false
	}
	return r.Figures[i], true
}

// Write writes the run to a file and creates its directory if necessary.
func (r Run) Write(file string) error {
	raw, err := r.encode()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, raw, 0o644)
}

// encode returns the run as JSON, a figure a line.
func (r Run) encode() ([]byte, error) {
	figures := r.Figures
	r.Figures = []Figure{}
	head, err := encodeJSON(r, "  ")
	if err != nil {
		return nil, err
	}
	lines := make([]string, len(figures))
	for i, f := range figures {
		line, err := encodeJSON(f, "")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		lines[i] = "    " + line
	}
	if len(lines) == 0 {
		return []byte(head + "\n"), nil
	}
	return []byte(strings.TrimSuffix(head, "[]\n}") + "[\n" + strings.Join(lines, ",\n") + "\n  ]\n}\n"), nil
}

// encodeJSON encodes JSON without escaping "<" and "&".
func encodeJSON(v any, indent string) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(v)
	return strings.TrimSpace(b.String()), err
}

// Read reads a file that Write wrote.
func Read(file string) (Run, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return Run{}, err
	}
	var r Run
	if err := json.Unmarshal(raw, &r); err != nil {
		return Run{}, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

// Table formats the run's figures for a terminal.
func (r Run) Table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-64s %12s %12s %12s\n", r.Part, "min", "median", "p99")
	cell := func(v *float64) string {
		if v == nil {
			return ""
		}
		return Number(*v)
	}
	for _, f := range r.Figures {
		middle := f.Median
		if middle == nil {
			middle = f.Value
		}
		fmt.Fprintf(&b, "%-64s %12s %12s %12s %s\n", f.Name, cell(f.Min), cell(middle), cell(f.P99), f.Unit)
	}
	return b.String()
}

// Number formats a figure with about three significant digits: 0.0123, 1.23, 12.3, 123, 12,345.
func Number(v float64) string {
	switch size := max(v, -v); {
	case size == 0:
		return "0"
	case size < 1:
		return fmt.Sprintf("%.2g", v)
	case size < 10:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
	case size < 1000:
		return fmt.Sprintf("%.0f", v)
	}
	return thousands(fmt.Sprintf("%.0f", v))
}

// thousands inserts a comma before every third digit.
func thousands(digits string) string {
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
