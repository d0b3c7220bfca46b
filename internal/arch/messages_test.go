package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	formatVerb = regexp.MustCompile(`%[-+# 0]*(\[\d+\])?[\d*]*(\.[\d*]*)?[a-zA-Z%]`)
	anyWord    = regexp.MustCompile(`[A-Za-z]{2,}`)
)

// TestFailuresSayWhatTheyWant refuses a format of Errorf and Fatalf in a test that holds verbs
// only: who reads a failing run does not know which of the values was got, and what was wanted.
func TestFailuresSayWhatTheyWant(t *testing.T) {
	for _, file := range testFiles(t) {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, filepath.Join(root(t), file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range wordless(f) {
			t.Errorf("%s:%d: the format %s has no word: say what was got and what was wanted", file,
				fset.Position(c.Pos()).Line, c.Value)
		}
	}
}

// wordless lists the formats of Errorf and Fatalf in f that hold no word; fmt.Errorf is no failure.
func wordless(f *ast.File) []*ast.BasicLit {
	var out []*ast.BasicLit
	ast.Inspect(f, func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		if !ok || len(c.Args) == 0 {
			return true
		}
		s, ok := c.Fun.(*ast.SelectorExpr)
		if !ok || s.Sel.Name != "Errorf" && s.Sel.Name != "Fatalf" {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && x.Name == "fmt" {
			return true
		}
		format, ok := c.Args[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		text, err := strconv.Unquote(format.Value)
		if err == nil && !anyWord.MatchString(formatVerb.ReplaceAllString(text, " ")) {
			out = append(out, format)
		}
		return true
	})
	return out
}

// TestFailuresSayWhichPartFailed refuses a failure with a text alone behind a condition a || b: it
// does not say which of the parts was met.
func TestFailuresSayWhichPartFailed(t *testing.T) {
	for _, file := range testFiles(t) {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, filepath.Join(root(t), file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range unclearParts(f) {
			t.Errorf("%s:%d: the failure does not say which part of its condition was met: print the values", file,
				fset.Position(n.Pos()).Line)
		}
	}
}

// unclearParts lists the calls of Error, Errorf, Fatal and Fatalf in f with a text without verbs
// alone, directly behind a condition that joins parts by ||.
func unclearParts(f *ast.File) []ast.Node {
	var out []ast.Node
	ast.Inspect(f, func(n ast.Node) bool {
		s, ok := n.(*ast.IfStmt)
		if !ok {
			return true
		}
		if b, ok := s.Cond.(*ast.BinaryExpr); !ok || b.Op != token.LOR {
			return true
		}
		for _, stmt := range s.Body.List {
			if e, ok := stmt.(*ast.ExprStmt); ok && isTextFailure(e.X) {
				out = append(out, e)
			}
		}
		return true
	})
	return out
}

// isTextFailure reports whether e is a failure whose only argument is a text without verbs.
func isTextFailure(e ast.Expr) bool {
	c, ok := e.(*ast.CallExpr)
	if !ok || len(c.Args) != 1 {
		return false
	}
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Error", "Errorf", "Fatal", "Fatalf"}, s.Sel.Name) {
		return false
	}
	text, ok := c.Args[0].(*ast.BasicLit)
	return ok && !formatVerb.MatchString(text.Value)
}

func TestConditionsOfSeveralPartsAreFound(t *testing.T) {
	for body, want := range map[string]int{
		`if a || b { t.Error("x") }`: 1, `if a || b { t.Errorf("x: %v", a) }`: 0, `if a && b { t.Error("x") }`: 0,
		`if a || b { t.Error("x", a) }`: 0, `if a { t.Fatal("x") }`: 0, `if a || b || c { w.t.Fatalf("x") }`: 1,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() { "+body+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(unclearParts(f)); got != want {
			t.Errorf("%s: got %d failures, want %d", body, got, want)
		}
	}
}

func TestFormatsWithoutAWordAreFound(t *testing.T) {
	for format, want := range map[string]int{
		`t.Errorf("%s: %+v", 1)`: 1, `t.Fatalf("%-10.3f, %[1]q", 1)`: 1, `t.Errorf("got %v, want %v", 1)`: 0,
		`fmt.Errorf("%w: %v", 1)`: 0, `w.t.Errorf("%v", 1)`: 1, `t.Error(1)`: 0, `t.Errorf("%d Pods", 1)`: 0,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() { "+format+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(wordless(f)); got != want {
			t.Errorf("%s: got %d formats without a word, want %d", strings.TrimSpace(format), got, want)
		}
	}
}
