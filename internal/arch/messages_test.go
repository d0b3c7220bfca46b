package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
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
