package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
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
	// statement is a word that says what is wrong with a value, or what was wanted in its place
	statement = regexp.MustCompile(`(?i)\b(got|wants?|wanted|expected|unexpected|instead|should|must|only|wrong|` +
		`not|no|never|nothing|nobody|none|neither|without|cannot|missing|lost|left|already|still|yet|too|twice|again|` +
		`before|after|than|more|less|other|another|but|while|though|although|despite|differs?|failed|fails|` +
		`refused)\b|n't`)
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

// wordless lists the formats of Errorf and Fatalf in f that hold no word.
func wordless(f *ast.File) []*ast.BasicLit {
	var out []*ast.BasicLit
	for _, c := range failures(f) {
		format := c.Args[0].(*ast.BasicLit)
		text, err := strconv.Unquote(format.Value)
		if err == nil && !anyWord.MatchString(formatVerb.ReplaceAllString(text, " ")) {
			out = append(out, format)
		}
	}
	return out
}

// failures lists the calls of Errorf and Fatalf in f whose format is a literal; fmt.Errorf is no
// failure.
func failures(f *ast.File) []*ast.CallExpr {
	var out []*ast.CallExpr
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
		if _, ok := c.Args[0].(*ast.BasicLit); ok {
			out = append(out, c)
		}
		return true
	})
	return out
}

// TestFailuresSayGotOrWant counts, by directory, the formats with a value and neither got nor want,
// nor another word that says what is wrong with it. messages.txt has the numbers, which may only
// shrink; -rewrite lowers them.
func TestFailuresSayGotOrWant(t *testing.T) {
	allowed := readCounts(t, "messages.txt")
	places := map[string][]string{}
	for _, file := range testFiles(t) {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, filepath.Join(root(t), file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range withoutStatement(f) {
			dir := filepath.ToSlash(filepath.Dir(file))
			places[dir] = append(places[dir], fmt.Sprintf("%s:%d: %s", file, fset.Position(c.Pos()).Line, c.Value))
		}
	}
	if *rewrite {
		writeCounts(t, places, allowed)
		return
	}
	for dir, list := range places {
		if len(list) > allowed[dir] {
			t.Errorf("%s: got %d formats that say neither got nor want, want at most %d:\n%s", dir, len(list),
				allowed[dir], strings.Join(list, "\n"))
		}
	}
	for dir, n := range allowed {
		if len(places[dir]) < n {
			t.Errorf("%s: got %d formats that say neither got nor want, want the %d of internal/arch/messages.txt "+
				"lowered to that: -rewrite does it", dir, len(places[dir]), n)
		}
	}
}

// withoutStatement lists the formats of Errorf and Fatalf in f with a value and no statement about
// it. An error alone speaks for itself.
func withoutStatement(f *ast.File) []*ast.BasicLit {
	var out []*ast.BasicLit
	for _, c := range failures(f) {
		if len(c.Args) == 2 {
			if id, ok := c.Args[1].(*ast.Ident); ok && (strings.HasPrefix(id.Name, "err") ||
				strings.HasSuffix(id.Name, "Err")) {
				continue
			}
		}
		format := c.Args[0].(*ast.BasicLit)
		text, err := strconv.Unquote(format.Value)
		if err == nil && len(c.Args) > 1 && !statement.MatchString(text) {
			out = append(out, format)
		}
	}
	return out
}

func readCounts(t *testing.T, file string) map[string]int {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, line := range strings.Split(string(raw), "\n") {
		if dir, n, ok := strings.Cut(line, " "); ok && !strings.HasPrefix(line, "#") {
			if out[dir], err = strconv.Atoi(n); err != nil {
				t.Fatalf("%s: got %q, want a directory and a number: %v", file, line, err)
			}
		}
	}
	return out
}

func writeCounts(t *testing.T, places map[string][]string, allowed map[string]int) {
	t.Helper()
	b := "# Formats of failures that say neither got nor want, by directory; a number may shrink or go, never grow\n" +
		"# or come.\n"
	for _, dir := range slices.Sorted(maps.Keys(places)) {
		if n := min(len(places[dir]), allowed[dir]); n > 0 {
			b += fmt.Sprintf("%s %d\n", dir, n)
		}
	}
	if err := os.WriteFile("messages.txt", []byte(b), 0o644); err != nil {
		t.Fatal(err)
	}
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

func TestFormatsWithoutAStatementAreFound(t *testing.T) {
	for call, want := range map[string]int{
		`t.Errorf("phase %q", p)`: 1, `t.Errorf("phase: got %q, want %q", p, q)`: 0, `t.Fatalf("read: %v", err)`: 0,
		`t.Errorf("view: %v, %v", v, err)`: 1, `t.Errorf("the Pod is not ready: %v", p)`: 0, `t.Error("phase", p)`: 0,
		`t.Errorf("%s is lost", p)`: 0, `w.t.Fatalf("bound to %q", n)`: 1, `fmt.Errorf("phase %q", p)`: 0,
		`t.Errorf("it does not end")`: 0, `t.Errorf("ends early")`: 0,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() { "+call+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(withoutStatement(f)); got != want {
			t.Errorf("%s: got %d formats without a statement, want %d", call, got, want)
		}
	}
}
