package mutants

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Mutation breaks one clause of one row. The pair of Row and Clause is its identity.
type Mutation struct {
	// Row is an ID of test/features/rows.md.
	Row string `json:"row"`
	// Clause says in a few words which part of the row is broken.
	Clause string `json:"clause,omitempty"`
	// None is the reason why the row has no mutation; all other fields but Row are empty then.
	None string `json:"none,omitempty"`
	Edit `json:",inline"`
	// Also are further places that must change together with the first one.
	Also []Edit `json:"also,omitempty"`
	// Tests must all fail.
	Tests []Test `json:"tests,omitempty"`
	// Containers is set when the tests run the built program with real containers, as root.
	Containers bool `json:"containers,omitempty"`
	// Within bounds each test's run in seconds; 0 means 60, or 300 with Containers.
	Within int `json:"within,omitempty"`
}

// Edit replaces the only occurrence of Find in File (a path from the top of the tree) by Put.
type Edit struct {
	File string `json:"file,omitempty"`
	Find string `json:"find,omitempty"`
	Put  string `json:"put,omitempty"`
}

// Test names one test that must fail.
type Test struct {
	// In is the directory of its package, from the top of the tree.
	In string `json:"in"`
	// Run is its name, with the names of subtests after slashes, as `go test -run` takes it but
	// without patterns: "TestBinding/to another node".
	Run string `json:"run"`
	// Says is a regular expression that the output of the failed test must match.
	Says string `json:"says"`
}

// ID is the row and, where there is one, the clause.
func (m Mutation) ID() string {
	if m.Clause == "" {
		return m.Row
	}
	return m.Row + ": " + m.Clause
}

// Edits are all changes of the mutation.
func (m Mutation) Edits() []Edit { return append([]Edit{m.Edit}, m.Also...) }

// Timeout bounds the run of one test.
func (m Mutation) Timeout() time.Duration {
	switch {
	case m.Within > 0:
		return time.Duration(m.Within) * time.Second
	case m.Containers:
		return 5 * time.Minute
	}
	return time.Minute
}

// Read returns the mutations of all files of dir, sorted by row, and an error that names file and
// entry for each that is not complete or is there twice.
func Read(dir string) ([]Mutation, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var all []Mutation
	var wrong []error
	seen := map[string]string{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var here []Mutation
		if err := yaml.UnmarshalStrict(raw, &here); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", file, err))
			continue
		}
		for i, m := range here {
			if err := m.check(); err != nil {
				wrong = append(wrong, fmt.Errorf("%s: entry %d (%s): %w", file, i+1, m.ID(), err))
			}
			if first, ok := seen[m.ID()]; ok {
				wrong = append(wrong, fmt.Errorf("%s: %q is in %s already: give it another clause", file, m.ID(),
					first))
			}
			seen[m.ID()] = file
		}
		all = append(all, here...)
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].ID() < all[j].ID() })
	return all, errors.Join(wrong...)
}

var rowID = regexp.MustCompile(`^[A-Z]+-\d+$`)

func (m Mutation) check() error {
	if !rowID.MatchString(m.Row) {
		return fmt.Errorf("row %q: want an ID as of test/features/rows.md", m.Row)
	}
	if m.None != "" {
		if m.File != "" || len(m.Tests) > 0 {
			return errors.New("none is set: file and tests must be empty")
		}
		return nil
	}
	for _, e := range m.Edits() {
		if e.File == "" || e.Find == "" || e.Find == e.Put {
			return errors.New("file, find and a put that differs from find are wanted")
		}
		if strings.HasSuffix(e.File, "_test.go") {
			return fmt.Errorf("%s is a test: a mutation changes the product", e.File)
		}
	}
	if len(m.Tests) == 0 {
		return errors.New("tests are wanted")
	}
	for _, t := range m.Tests {
		if t.In == "" || t.Run == "" || t.Says == "" {
			return errors.New("in, run and says are wanted for each test")
		}
		if _, err := regexp.Compile(t.Says); err != nil {
			return fmt.Errorf("says: %w", err)
		}
	}
	return nil
}
