package forecast

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mostKept is how many forecasts a directory keeps.
const mostKept = 1000

// Store keeps a forecast in a directory, which is made if need be, under a name of its own, and
// removes those beyond the newest mostKept. After an error nothing of the forecast is left.
func Store(dir string, f *Forecast) error {
	raw, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	name := f.At.UTC().Format("20060102T150405Z") + "-" + f.Verb + "-*.json"
	file, err := os.CreateTemp(dir, name)
	if err != nil {
		return err
	}
	_, err = file.Write(raw)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = os.Remove(file.Name()) // the first error counts
		return err
	}
	return prune(dir)
}

// prune removes the oldest forecasts beyond mostKept; their names begin with their times. Files of
// other names stay.
func prune(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "[0-9]*T[0-9]*Z-*.json"))
	if err != nil {
		return err
	}
	slices.Sort(files)
	for _, f := range files[:max(0, len(files)-mostKept)] {
		if err := os.Remove(f); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// Stored is a forecast that was kept, with its file.
type Stored struct {
	*Forecast
	File string
}

// Keep keeps the score of a stored forecast when it is known as a whole, so that later changes of
// the same workloads are not taken for this one.
func (f Stored) Keep(s Score) error {
	if !s.whole || f.Scored != nil {
		return nil
	}
	scored := *f.Forecast
	scored.Scored = &s
	raw, err := json.Marshal(scored)
	if err != nil {
		return err
	}
	fresh := f.File + ".new"
	if err := os.WriteFile(fresh, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, f.File)
}

// ReadAll reads what a directory keeps, the oldest first; a directory that is not there keeps
// nothing. What cannot be read is left out; a note for each says which file and why.
func ReadAll(dir string) (kept []Stored, notes []string, err error) {
	files, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, e := range files {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		f, err := read(path)
		if err != nil {
			notes = append(notes, fmt.Sprintf("%s is left out: %v", path, err))
			continue
		}
		kept = append(kept, Stored{f, path})
	}
	slices.SortStableFunc(kept, func(a, b Stored) int { return a.At.Compare(b.At) })
	return kept, notes, nil
}

func read(path string) (*Forecast, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := &Forecast{}
	if err := json.Unmarshal(raw, f); err != nil {
		return nil, err
	}
	if f.Format != Format {
		return nil, fmt.Errorf("format: %d is not known, only %d is", f.Format, Format)
	}
	return f, nil
}
