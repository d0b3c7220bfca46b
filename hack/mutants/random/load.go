package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
)

// target is a package to be changed: its directory, the files of it (all when empty) and the
// directories whose tests are about it, as DIRECTORY or DIRECTORY@TESTS.
type target struct {
	Dir   string
	Files string
	Tests []string
}

// chosen are tests of a directory: those whose name the expression fits.
type chosen struct {
	dir  string
	name *regexp.Regexp
}

// readTargets reads packages.txt: lines "DIRECTORY [FILES] : TEST-DIRECTORY[@TESTS]…", directory
// and files as patterns, TESTS as a regular expression that a test's whole name fits.
// The tests of the package itself need no mention. only, when not empty, is a comma separated list
// of which one must be part of the directory's path.
func readTargets(file, only string) ([]target, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var out []target
	seen := map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		what, tests, _ := strings.Cut(line, ":")
		words := strings.Fields(what)
		if len(words) == 0 {
			continue
		}
		t := target{Tests: strings.Fields(tests)}
		if len(words) > 1 {
			t.Files = words[1]
		}
		dirs, err := filepath.Glob(words[0])
		if err != nil {
			return nil, err
		}
		found := false
		for _, dir := range dirs {
			files, _ := filepath.Glob(filepath.Join(dir, orAll(t.Files)))
			if len(files) == 0 {
				continue
			}
			found = true
			if !seen[dir] && matches(dir, only) {
				seen[dir] = true
				out = append(out, target{Dir: dir, Files: t.Files, Tests: t.Tests})
			}
		}
		if !found {
			return nil, fmt.Errorf("%s:%d: no package is named %s", file, n, words[0])
		}
	}
	return out, lines.Err()
}

func orAll(files string) string {
	if files == "" {
		return "*.go"
	}
	return files
}

func matches(dir, only string) bool {
	if only == "" {
		return true
	}
	for _, part := range strings.FieldsFunc(only, func(r rune) bool { return r == ',' || r == ' ' }) {
		if strings.Contains(dir+"/", part) {
			return true
		}
	}
	return false
}

// pkg is a package with its syntax and types, and the mutations drawn of it.
type pkg struct {
	target
	Path                             string // import path
	Places, NotCompiling, Equivalent int

	fset    *token.FileSet
	files   []*source
	types   *types.Package
	info    *types.Info
	imports types.Importer
	drawn   []*mutation
}

// source is one file: what it is called in the package's directory, its text and its syntax.
// mutated says whether it is to be changed.
type source struct {
	name    string
	text    []byte
	file    *ast.File
	mutated bool
}

type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// load parses and type-checks the targets; imports are read from the go command's export data.
func load(ctx context.Context, targets []target) ([]*pkg, error) {
	byDir := map[string]target{}
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles",
		"os", "strconv", "strings", "sync/atomic"} // what the helper file needs
	for _, t := range targets {
		abs, err := filepath.Abs(t.Dir)
		if err != nil {
			return nil, err
		}
		byDir[abs] = t
		args = append(args, "./"+t.Dir)
	}
	c := exec.CommandContext(ctx, "go", args...)
	c.Env = environment()
	var stderr bytes.Buffer
	c.Stderr = &stderr
	raw, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.String())
	}
	exports := map[string]string{}
	var found []listed
	for d := json.NewDecoder(bytes.NewReader(raw)); ; {
		var l listed
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[l.ImportPath] = l.Export
		if _, ok := byDir[l.Dir]; ok {
			found = append(found, l)
		}
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(exports[path])
	})
	var out []*pkg
	for _, l := range found {
		p := &pkg{target: byDir[l.Dir], Path: l.ImportPath, fset: fset, imports: imports}
		if err := p.parse(l); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return out, nil
}

func (p *pkg) parse(l listed) error {
	var files []*ast.File
	for _, name := range l.GoFiles {
		text, err := os.ReadFile(filepath.Join(l.Dir, name))
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(p.fset, filepath.Join(l.Dir, name), text,
			parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		mutated, err := filepath.Match(orAll(p.Files), name)
		if err != nil {
			return err
		}
		p.files = append(p.files, &source{name: name, text: text, file: f, mutated: mutated && !ast.IsGenerated(f)})
		files = append(files, f)
	}
	p.info = newInfo()
	conf := types.Config{Importer: p.imports}
	var err error
	p.types, err = conf.Check(l.ImportPath, p.fset, files, p.info)
	return err
}

func newInfo() *types.Info {
	return &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{},
		Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
}

func environment() []string { return append(os.Environ(), "CGO_ENABLED=0") }
