package forecast

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Store keeps a forecast in a directory, which is made if need be, under a name of its own.
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
	if _, err = file.Write(raw); err != nil {
		_ = file.Close() // the first error counts
		return err
	}
	return file.Close()
}

// Stored is a forecast that was kept, with its file.
type Stored struct {
	*Forecast
	File string
}

// ReadAll reads what a directory keeps, the oldest first; a directory that is not there keeps
// nothing. The error names the file.
func ReadAll(dir string) ([]Stored, error) {
	files, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Stored
	for _, e := range files {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		f := &Forecast{}
		if err := json.Unmarshal(raw, f); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if f.Format != Format {
			return nil, fmt.Errorf("%s: format: %d is not known, only %d is", path, f.Format, Format)
		}
		out = append(out, Stored{f, path})
	}
	slices.SortStableFunc(out, func(a, b Stored) int { return a.At.Compare(b.At) })
	return out, nil
}
