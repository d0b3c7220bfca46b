package main

import (
	"errors"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// sameEntry is a line of equivalent.yaml: mutations that change nothing a test could see, and why.
// All mutations that the set fields name are meant.
type sameEntry struct {
	Package string `json:"package"`
	File    string `json:"file"`
	Func    string `json:"func"`
	Kind    string `json:"kind"`
	Text    string `json:"text"`
	Nth     int    `json:"nth,omitempty"`
	Why     string `json:"why"`
	used    bool
}

type equivalent []*sameEntry

func readEquivalent(file string) (equivalent, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out equivalent
	if err := yaml.UnmarshalStrict(raw, &out); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for i, e := range out {
		if e.Package == "" || e.File == "" || e.Func == "" || e.Kind == "" || e.Text == "" || e.Why == "" {
			return nil, fmt.Errorf("%s: entry %d: package, file, func, kind, text and why are all needed", file, i+1)
		}
	}
	return out, nil
}

// without leaves out of a package's mutations those that change nothing.
func (s equivalent) without(path string, all []*mutation) []*mutation {
	var out []*mutation
	for _, m := range all {
		if !s.has(path, m) {
			out = append(out, m)
		}
	}
	return out
}

func (s equivalent) has(path string, m *mutation) bool {
	for _, e := range s {
		if e.inPackage(path) && e.File == m.File && e.Func == m.Func && e.Kind == m.Kind && e.Text == m.Text &&
			(e.Nth == 0 || e.Nth == m.Nth) {
			e.used = true
			return true
		}
	}
	return false
}

const modulePath = "github.com/gantry-project/gantry/"

func (e *sameEntry) inPackage(path string) bool {
	return modulePath+e.Package == path || e.Package == path
}

// stale is an error that names entries of these packages that fit no mutation.
func (s equivalent) stale(packages []*pkg) error {
	var errs []error
	for _, p := range packages {
		for _, e := range s {
			if e.inPackage(p.Path) && !e.used {
				errs = append(errs, fmt.Errorf("equivalent.yaml: %s %s %s: %s: %s is not in the code any more",
					e.Package, e.File, e.Func, e.Kind, e.Text))
			}
		}
	}
	return errors.Join(errs...)
}
