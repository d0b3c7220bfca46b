package mutants

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Fingerprint changes when anything does that the result of the mutation can be expected to depend
// on: its data, the packages of the files that it changes, and the packages of its tests with their
// testdata.
func Fingerprint(root string, m Mutation) (string, error) {
	sum := sha256.New()
	if err := json.NewEncoder(sum).Encode(m); err != nil {
		return "", err
	}
	for _, d := range Dirs(m) {
		part, err := dirSum(filepath.Join(root, d))
		if err != nil {
			return "", fmt.Errorf("%s: %w", m.ID(), err)
		}
		_, _ = io.WriteString(sum, d+" "+part+"\n")
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// Dirs are the directories of the packages that a mutation's fingerprint covers, in order.
func Dirs(m Mutation) []string {
	dirs := map[string]bool{}
	for _, e := range m.Edits() {
		dirs[filepath.Dir(e.File)] = true
	}
	for _, t := range m.Tests {
		dirs[t.In] = true
	}
	return slices.Sorted(maps.Keys(dirs))
}

// WalkFiles calls see with each file of a package's directory and of its testdata, without packages
// below it; rel is the path in the directory.
func WalkFiles(dir string, see func(rel string, content []byte)) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if rel != "." && rel != "testdata" && !strings.HasPrefix(rel, "testdata"+string(filepath.Separator)) {
				return filepath.SkipDir
			}
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		see(rel, raw)
		return nil
	})
}

var hashes sync.Map // directory: its sum; the tree does not change while a program runs

// dirSum is the sum of the files of a package.
func dirSum(dir string) (string, error) {
	if s, ok := hashes.Load(dir); ok {
		return s.(string), nil
	}
	sum := sha256.New()
	err := WalkFiles(dir, func(rel string, content []byte) {
		fmt.Fprintf(sum, "%s %x\n", rel, sha256.Sum256(content))
	})
	s := hex.EncodeToString(sum.Sum(nil))
	if err == nil {
		hashes.Store(dir, s)
	}
	return s, err
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
