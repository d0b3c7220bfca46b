package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// Columns of a line of code and of a comment, a tab counted as four.
const (
	codeColumns = 120
	textColumns = 100
)

// directive is a comment that a tool reads; it may be as wide as the tool wants it.
var directive = regexp.MustCompile(`^//(go:|nolint|lint:|line |[a-z]+:[a-z])`)

func TestLinesAreNotWide(t *testing.T) {
	for _, p := range tree(t) {
		for file, f := range p.files {
			if !isGenerated(f) {
				refuseWideLines(t, file, p.fset, f)
			}
		}
	}
}

// Tests are read as code is; wider data belongs in testdata.
func TestLinesOfTestsAreNotWide(t *testing.T) {
	for _, file := range testFiles(t) {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, filepath.Join(root(t), file), nil,
			parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		refuseWideLines(t, file, fset, f)
	}
}

// script tells the files that people write besides Go: for the shell, for make, for the page.
var script = regexp.MustCompile(`\.(sh|js|css|html)$|(^|/)Makefile$|^\.golangci\.yml$`)

func TestLinesOfScriptsAreNotWide(t *testing.T) {
	walk(t, func(file string) {
		if !script.MatchString(file) {
			return
		}
		raw, err := os.ReadFile(filepath.Join(root(t), file))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(raw), "\n") {
			most := codeColumns
			if text := strings.TrimSpace(line); strings.HasPrefix(text, "# ") || strings.HasPrefix(text, "// ") {
				most = textColumns
			}
			wide := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
			if wide > most && longestWord(line) <= 72 {
				t.Errorf("%s:%d: %d columns, at most %d: wrap it", file, i+1, wide, most)
			}
		}
	})
}

func refuseWideLines(t *testing.T, file string, fset *token.FileSet, f *ast.File) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root(t), file))
	if err != nil {
		t.Fatal(err)
	}
	verbatim := rawStrings(fset, f)
	for i, line := range strings.Split(string(raw), "\n") {
		wide := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
		text := strings.TrimSpace(line)
		switch {
		case directive.MatchString(text), longestWord(text) > 72: // an address cannot be wrapped
		case strings.HasPrefix(text, "//") && wide > textColumns && !verbatim[i+1]:
			t.Errorf("%s:%d: a comment of %d columns, at most %d: wrap it", file, i+1, wide, textColumns)
		case wide > codeColumns && !verbatim[i+1] && !strings.Contains(text, "//nolint"):
			t.Errorf("%s:%d: %d columns, at most %d: break the line after a comma, or name a part", file, i+1,
				wide, codeColumns)
		}
	}
}

func longestWord(line string) int {
	longest := 0
	for _, w := range strings.Fields(line) {
		longest = max(longest, utf8.RuneCountInString(w))
	}
	return longest
}

// rawStrings returns the lines of f inside a raw string of several lines.
func rawStrings(fset *token.FileSet, f *ast.File) map[int]bool {
	out := map[int]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING && strings.HasPrefix(s.Value, "`") {
			for l := fset.Position(s.Pos()).Line; l <= fset.Position(s.End()).Line; l++ {
				out[l] = strings.Contains(s.Value, "\n")
			}
		}
		return true
	})
	return out
}
