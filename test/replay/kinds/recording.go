package kinds

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// Recording is the answers about one kind of object, by one verb.
type Recording struct {
	Seed  json.RawMessage `json:"seed"` // the object that was changed
	Path  string          `json:"path"` // of the list
	What  string          `json:"what"` // create, update, or a subresource
	Base  Answer          `json:"base"` // to the seed as it is; of update and status, the stored object
	Cases []Case          `json:"cases"`
}

// Case is one request and the answer to it.
type Case struct {
	Set  []Set  `json:"set"`
	Want Answer `json:"want"`
}

// Set sets a path of an object to a value; without a value the field is removed.
type Set struct {
	Path  []any           `json:"path"` // keys and indexes
	Value json.RawMessage `json:"to,omitempty"`
}

// Answer is what clients act on.
type Answer struct {
	Code     int      `json:"code"`
	Findings []string `json:"findings,omitempty"` // in the order of the answer
	Message  string   `json:"message,omitempty"`  // of a refusal without findings
	Warnings []string `json:"warnings,omitempty"`
	// Object is the object of a base, Delta how another differs from it, Cells its row of a table.
	Object json.RawMessage `json:"object,omitempty"`
	Delta  []string        `json:"delta,omitempty"`
	Cells  string          `json:"cells,omitempty"`
}

// Read returns the recordings of a file.
func Read(file string) (out []Recording, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for d := json.NewDecoder(z); ; {
		var r Recording
		switch err := d.Decode(&r); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, r)
	}
}

// Write writes recordings to a file, in order.
func Write(file string, all []Recording) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	e := json.NewEncoder(z)
	for i := range all {
		if err := e.Encode(&all[i]); err != nil {
			return err
		}
	}
	return errors.Join(z.Close(), f.Close())
}

// Apply returns an object with changes.
func Apply(raw []byte, sets []Set) ([]byte, error) {
	var obj any
	if err := json.Unmarshal(raw, &obj); err != nil {
		return nil, err
	}
	for _, s := range sets {
		var value any
		if len(s.Value) > 0 {
			if err := json.Unmarshal(s.Value, &value); err != nil {
				return nil, err
			}
		}
		obj = apply(obj, s.Path, value, len(s.Value) == 0)
	}
	return json.Marshal(obj)
}

func apply(obj any, path []any, value any, remove bool) any {
	if len(path) == 0 {
		return value
	}
	switch key := path[0].(type) {
	case string:
		m, _ := obj.(map[string]any)
		if m == nil {
			m = map[string]any{}
		}
		if remove && len(path) == 1 {
			delete(m, key)
			return m
		}
		m[key] = apply(m[key], path[1:], value, remove)
		return m
	case float64:
		l, _ := obj.([]any)
		i := int(key)
		for len(l) <= i {
			l = append(l, nil)
		}
		if remove && len(path) == 1 {
			return slices.Delete(l, i, i+1)
		}
		l[i] = apply(l[i], path[1:], value, remove)
		return l
	}
	return obj
}
