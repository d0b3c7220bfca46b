package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
)

// The outcomes of a mutation.
const (
	killed     = "killed"
	panicked   = "panics"
	hung       = "hangs"
	survived   = "survived"
	notReached = "not reached"
)

// result is what came of one mutation.
type result struct {
	Mutation *mutation `json:"mutation"`
	Outcome  string    `json:"outcome"`
	// Digest tells which code and tests gave the outcome.
	Digest  string  `json:"digest"`
	Seconds float64 `json:"seconds"`
}

// summary is what a run found of one package.
type summary struct {
	Path                             string
	Places, NotCompiling, Equivalent int
	Date, Commit                     string
	Seed                             int64
	// Keys are those of the drawn mutations.
	Keys []string
}

// results are kept in a JSON file that is written after every mutation.
type results struct {
	file     string
	Results  map[string]*result
	Packages map[string]summary
}

func openResults(file string) (*results, error) {
	s := &results{file: file, Results: map[string]*result{}, Packages: map[string]summary{}}
	raw, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

func (s *results) save() error {
	raw, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.file), 0o755); err != nil {
		return err
	}
	next := s.file + ".next"
	if err := os.WriteFile(next, raw, 0o644); err != nil {
		return err
	}
	return os.Rename(next, s.file)
}

// count is how many mutations of a package came to each outcome.
func (s *results) count(p summary) map[string]int {
	out := map[string]int{}
	for _, k := range p.Keys {
		if r := s.Results[k]; r != nil {
			out[r.Outcome]++
		}
	}
	return out
}

func printSurvivors(w io.Writer, s *results, targets []target) error {
	dirs := map[string]bool{}
	for _, t := range targets {
		dirs[modulePath+t.Dir] = true
	}
	var paths []string
	for path := range s.Packages {
		if dirs[path] {
			paths = append(paths, path)
		}
	}
	sort.Strings(paths)
	for _, path := range paths {
		for _, k := range s.Packages[path].Keys {
			r := s.Results[k]
			if r != nil && (r.Outcome == survived || r.Outcome == notReached) {
				if _, err := fmt.Fprintf(w, "%s/%s (%s)\n", path[len(modulePath):], r.Mutation, r.Outcome); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
