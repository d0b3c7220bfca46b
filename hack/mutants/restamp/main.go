// Command restamp keeps results of mutations valid over a change that no mutation can notice: of
// comments, of names of tests and of other functions in test files.
//
//	go run ./hack/mutants/restamp [-renames FILE] DIRECTORY
//
// In: a directory with the tree before the change (git worktree add DIRECTORY REVISION), and a file
// with lines `DIR OLD NEW` of names that became others. Out: test/mutants/results.jsonl, where each
// result that was valid before has the fingerprint of now, if the packages that it depends on
// differ in nothing else. Other results stay as they are: `make mutants` runs their mutations anew.
package main

import (
	"flag"
	"fmt"
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gantry-project/gantry/test/mutants"
)

const (
	rowsDir     = "test/mutants/rows"
	resultsFile = "test/mutants/results.jsonl"
)

func main() {
	renames := flag.String("renames", "", "file with lines `DIR OLD NEW`")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *renames); err != nil {
		fmt.Fprintln(os.Stderr, "restamp:", err)
		os.Exit(1)
	}
}

func run(before, renamesFile string) error {
	renames, err := readRenames(renamesFile)
	if err != nil {
		return err
	}
	old, err := byID(before)
	if err != nil {
		return err
	}
	all, err := mutants.Read(rowsDir)
	if err != nil {
		return err
	}
	results, err := mutants.ReadResults(resultsFile)
	if err != nil {
		return err
	}
	counts := map[string]int{}
	for _, m := range all {
		r, ok := results[m.ID()]
		if !ok {
			continue
		}
		outcome, print, err := restamp(before, old[m.ID()], m, r, renames)
		if err != nil {
			return err
		}
		counts[outcome]++
		if outcome == "restamped" {
			r.Fingerprint = print
			results[m.ID()] = r
		}
	}
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		fmt.Printf("%4d %s\n", counts[k], k)
	}
	return mutants.WriteResults(resultsFile, results, all)
}

// restamp says what becomes of a result: valid already, restamped with the fingerprint returned, or
// why it is neither.
func restamp(before string, old, m mutants.Mutation, r mutants.Result,
	renames map[string]map[string]string) (outcome, print string, err error) {
	now, err := mutants.Fingerprint(".", m)
	if err != nil {
		return "", "", err
	}
	if now == r.Fingerprint {
		return "valid", now, nil
	}
	then, err := mutants.Fingerprint(before, old)
	if err != nil || then != r.Fingerprint {
		return "not valid before either", "", nil //nolint:nilerr // a mutation that is new has no place there
	}
	if !sameMutation(old, m, renames) {
		return "of a mutation that changed", "", nil
	}
	for _, dir := range mutants.Dirs(m) {
		a, err := normalized(filepath.Join(before, dir))
		if err != nil {
			return "", "", err
		}
		b, err := normalized(dir)
		if err != nil {
			return "", "", err
		}
		equal := func(x, y []string) bool {
			return slices.EqualFunc(x, y, func(x, y string) bool { return x == y || renames[dir][x] == y })
		}
		if !maps.EqualFunc(a, b, equal) {
			return "of a package that changed", "", nil
		}
	}
	return "restamped", now, nil
}

func byID(root string) (map[string]mutants.Mutation, error) {
	all, err := mutants.Read(filepath.Join(root, rowsDir))
	if err != nil {
		return nil, err
	}
	out := map[string]mutants.Mutation{}
	for _, m := range all {
		out[m.ID()] = m
	}
	return out, nil
}

// sameMutation reports whether a mutation differs in names of its tests only.
func sameMutation(old, m mutants.Mutation, renames map[string]map[string]string) bool {
	if !slices.Equal(old.Edits(), m.Edits()) || len(old.Tests) != len(m.Tests) {
		return false
	}
	for i, t := range old.Tests {
		name, sub, _ := strings.Cut(t.Run, "/")
		if n, ok := renames[t.In][name]; ok {
			t.Run = strings.TrimSuffix(n+"/"+sub, "/")
		}
		if t != m.Tests[i] {
			return false
		}
	}
	return true
}

// normalized are the files that a fingerprint covers: of Go files the tokens without comments, of
// others the content.
func normalized(dir string) (map[string][]string, error) {
	out := map[string][]string{}
	err := mutants.WalkFiles(dir, func(rel string, content []byte) {
		out[rel] = []string{string(content)}
		if strings.HasSuffix(rel, ".go") && !strings.HasPrefix(rel, "testdata") {
			out[rel] = tokens(content)
		}
	})
	return out, err
}

// tokens are those of a Go file, directives for the compiler among them and other comments not.
func tokens(src []byte) (out []string) {
	fset := token.NewFileSet()
	var s scanner.Scanner
	s.Init(fset.AddFile("", fset.Base(), len(src)), src, nil, scanner.ScanComments)
	for {
		_, tok, lit := s.Scan()
		switch {
		case tok == token.EOF:
			return out
		case tok == token.COMMENT && !strings.HasPrefix(lit, "//go:"):
			continue
		case tok == token.SEMICOLON || lit == "":
			lit = tok.String() // a semicolon may be written or be a line's end
		}
		out = append(out, lit)
	}
}

// readRenames reads the names by directory; an empty name of a file is none.
func readRenames(file string) (map[string]map[string]string, error) {
	out := map[string]map[string]string{}
	if file == "" {
		return out, nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			return nil, fmt.Errorf("%s: %q: want DIR OLD NEW", file, line)
		}
		if out[f[0]] == nil {
			out[f[0]] = map[string]string{}
		}
		out[f[0]][f[1]] = f[2]
	}
	return out, nil
}
