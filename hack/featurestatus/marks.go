package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

var (
	markText = regexp.MustCompile(`^// rows?: ([A-Z]+-\d+(?:[, ]+[A-Z]+-\d+)*)`)
	rowID    = regexp.MustCompile(`[A-Z]+-\d+`)
	testName = regexp.MustCompile(`^(Test|Fuzz)[^a-z]`)
)

// mark is a row's name at a test. sub is the name of the table case or subtest at which the mark
// stands; empty for the whole test.
type mark struct{ pkg, test, sub string }

// readMarks returns the marks below top by row. A mark belongs to the test function that it is in
// or before, to the tests that use the table it is in, or to the subtests that run the function it
// is at. A mark that belongs to none of them is an error: a package, a helper that no test runs, or
// a benchmark proves nothing.
func readMarks(top string) (map[string][]mark, error) {
	marks := map[string][]mark{}
	byDir := map[string][]string{}
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != top || d.Name() == "build") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, "_test.go") {
			byDir[filepath.Dir(path)] = append(byDir[filepath.Dir(path)], path)
		}
		return nil
	})
	wrong := []error{err}
	for dir, paths := range byDir {
		wrong = append(wrong, packageMarks(filepath.ToSlash(dir), paths, marks))
	}
	for _, ms := range marks {
		sort.Slice(ms, func(i, j int) bool {
			return ms[i].pkg+ms[i].test+ms[i].sub < ms[j].pkg+ms[j].test+ms[j].sub
		})
	}
	return marks, errors.Join(wrong...)
}

// tests are the parsed test files of one directory.
type tests struct {
	set   *token.FileSet
	files []*ast.File
}

func packageMarks(pkg string, paths []string, marks map[string][]mark) error {
	p := tests{set: token.NewFileSet()}
	for _, path := range paths {
		f, err := parser.ParseFile(p.set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		p.files = append(p.files, f)
	}
	var wrong []error
	for _, f := range p.files {
		for _, group := range f.Comments {
			for _, c := range group.List {
				m := markText.FindStringSubmatch(c.Text)
				if m == nil {
					continue
				}
				places := p.placesOf(f, c)
				if len(places) == 0 {
					wrong = append(wrong,
						fmt.Errorf("%s: the mark %q is in no test: move it to the test that asserts it",
							p.set.Position(c.Pos()), c.Text))
				}
				for _, at := range places {
					for _, id := range rowID.FindAllString(m[1], -1) {
						add(marks, id, mark{pkg, at.test, at.sub})
					}
				}
			}
		}
	}
	return errors.Join(wrong...)
}

func add(marks map[string][]mark, id string, m mark) {
	for _, have := range marks[id] {
		if have == m {
			return
		}
	}
	marks[id] = append(marks[id], m)
}

// place is a test function, and the subtest or case of it where one is known.
type place struct{ test, sub string }

func (p tests) placesOf(f *ast.File, c *ast.Comment) []place {
	for _, d := range f.Decls {
		if c.Pos() > d.End() {
			continue
		}
		sub := ""
		if c.Pos() > d.Pos() {
			sub = caseOf(p.set, d, c)
		}
		return p.runs(d, sub, 3)
	}
	return nil
}

// runs returns the tests that run what is declared in d, through at most so many functions as deep
// says.
func (p tests) runs(d ast.Decl, sub string, deep int) []place {
	names := map[string]bool{}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil && testName.MatchString(d.Name.Name+"_") {
			return []place{{d.Name.Name, sub}}
		}
		if strings.HasPrefix(d.Name.Name, "Benchmark") {
			return nil
		}
		names[d.Name.Name] = true
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if v, ok := s.(*ast.ValueSpec); ok {
				for _, n := range v.Names {
					names[n.Name] = true
				}
			}
		}
	}
	if deep == 0 || len(names) == 0 {
		return nil
	}
	var out []place
	for _, f := range p.files {
		for _, other := range f.Decls {
			if other == d {
				continue
			}
			for _, use := range usesOf(other, names) {
				if sub != "" {
					use = sub
				}
				out = append(out, p.runs(other, use, deep-1)...)
			}
		}
	}
	return out
}

// usesOf returns, for each use of one of the names in d, the name of the subtest or case that it is
// in, which may be empty.
func usesOf(d ast.Decl, names map[string]bool) []string {
	var out []string
	var around []ast.Node
	ast.Inspect(d, func(n ast.Node) bool {
		if n == nil {
			around = around[:len(around)-1]
			return true
		}
		around = append(around, n)
		if id, ok := n.(*ast.Ident); ok && names[id.Name] {
			sub := ""
			for i := len(around) - 1; i >= 0 && sub == ""; i-- {
				sub = caseName(around[i])
			}
			out = append(out, sub)
		}
		return true
	})
	return out
}

// caseName is the name of a subtest, t.Run("name", …), or of a table's case, {"name", …} or
// {name: "name", …} or "name": …; empty for any other node.
func caseName(n ast.Node) string {
	switch n := n.(type) {
	case *ast.CallExpr:
		if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Run" && len(n.Args) > 0 {
			return text(n.Args[0])
		}
	case *ast.KeyValueExpr:
		return text(n.Key)
	case *ast.CompositeLit:
		if len(n.Elts) > 0 {
			if kv, ok := n.Elts[0].(*ast.KeyValueExpr); ok {
				return text(kv.Value)
			}
			return text(n.Elts[0])
		}
	}
	return ""
}

func text(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	s, _ := strconv.Unquote(lit.Value)
	return s
}

// caseOf is the name of the subtest or case that the comment stands before, on the line above it or
// on the same line, or in; empty when there is none.
func caseOf(set *token.FileSet, d ast.Decl, c *ast.Comment) string {
	line := set.Position(c.End()).Line
	before, in := "", ""
	ast.Inspect(d, func(n ast.Node) bool {
		if n == nil {
			return true
		}
		name := caseName(n)
		if name == "" {
			return true
		}
		if first := set.Position(n.Pos()).Line; before == "" && (first == line || first == line+1) {
			before = name
		}
		if n.Pos() < c.Pos() && c.Pos() < n.End() {
			in = name
		}
		return true
	})
	if before != "" {
		return before
	}
	return in
}
