package mutants

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"go/scanner"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// Fingerprint changes when anything does that the result of the mutation can be expected to depend
// on: its data, the files that it changes, the files that declare its tests, and the testdata
// beside them. Of a Go file the tokens count, comments do not.
func Fingerprint(root string, m Mutation) (string, error) {
	sum := sha256.New()
	if err := json.NewEncoder(sum).Encode(m); err != nil {
		return "", err
	}
	for _, e := range m.Edits() {
		if err := addSum(sum, root, e.File); err != nil {
			return "", fmt.Errorf("%s: %w", m.ID(), err)
		}
	}
	for _, t := range m.Tests {
		file, err := declares(root, t)
		if err != nil {
			return "", fmt.Errorf("%s: %w", m.ID(), err)
		}
		if err := errors.Join(addSum(sum, root, file), addTestdata(sum, root, t.In)); err != nil {
			return "", fmt.Errorf("%s: %w", m.ID(), err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

var fileHashes sync.Map // path: the sum of its file; the tree does not change while a program runs

// addSum writes the path of a file and the sum of its tokens, or of its bytes, to w.
func addSum(w io.Writer, root, file string) error {
	path := filepath.Join(root, file)
	known, ok := fileHashes.Load(path)
	if !ok {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(file, ".go") {
			raw = []byte(strings.Join(tokens(raw), "\n"))
		}
		known = sha256.Sum256(raw)
		fileHashes.Store(path, known)
	}
	_, err := fmt.Fprintf(w, "%s %x\n", file, known)
	return err
}

// addTestdata does addSum for all files of a package's testdata, if it has any.
func addTestdata(w io.Writer, root, dir string) error {
	err := filepath.WalkDir(filepath.Join(root, dir, "testdata"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return addSum(w, root, rel)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

var declared sync.Map // directory: the files of its top-level tests by name

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// declares is the file, from root, that declares a test's function. A function that is nowhere is
// an error.
func declares(root string, t Test) (string, error) {
	dir := filepath.Join(root, t.In)
	known, ok := declared.Load(dir)
	if !ok {
		byName := map[string]string{}
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			return "", err
		}
		for _, f := range files {
			raw, err := os.ReadFile(f)
			if err != nil {
				return "", err
			}
			for _, name := range testFunction.FindAllSubmatch(raw, -1) {
				byName[string(name[1])] = filepath.Join(t.In, filepath.Base(f))
			}
		}
		known, _ = declared.LoadOrStore(dir, byName)
	}
	name, _, _ := strings.Cut(t.Run, "/")
	file := known.(map[string]string)[name]
	if file == "" {
		return "", fmt.Errorf("%s has no test %s", t.In, name)
	}
	return file, nil
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

// ReadResults returns the last result of each mutation in a file of JSON lines; none when the file
// is not there.
func ReadResults(file string) (map[string]Result, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]Result{}, nil
	}
	if err != nil {
		return nil, err
	}
	out := map[string]Result{}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var r Result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		out[r.ID] = r
	}
	return out, lines.Err()
}

// WriteResults writes one line for each result whose mutation is still in all, in order.
func WriteResults(file string, results map[string]Result, all []Mutation) error {
	var b bytes.Buffer
	for _, m := range all {
		r, ok := results[m.ID()]
		if !ok {
			continue
		}
		raw, err := json.Marshal(r)
		if err != nil {
			return err
		}
		b.Write(append(raw, '\n'))
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}
