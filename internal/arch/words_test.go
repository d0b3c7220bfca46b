package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// banned is one line of words.txt: words that are not the field's, and what to write instead.
type banned struct {
	words       []string // in lower case, as they follow each other in an identifier
	replacement string
	in          string // the directory the ban is limited to; empty: everywhere
}

// TestWordsAreTheFieldsOwn refuses names that a Kubernetes engineer would not search for: of
// packages, of files and of everything that is declared outside of functions, struct fields and
// methods included.
func TestWordsAreTheFieldsOwn(t *testing.T) {
	list, allowed := readWords(t)
	for _, p := range tree(t) {
		refuse := func(where, what, name string) {
			if allowed[p.path+" "+name] {
				return
			}
			for _, b := range list {
				if b.in != "" && !below(p.path, b.in) {
					continue
				}
				if contains(split(name), b.words) {
					t.Errorf("%s: %s %q says %q: write %s (docs/GLOSSARY.md; an exception is a line `allow` of "+
						"internal/arch/words.txt)", where, what, name, strings.Join(b.words, " "), b.replacement)
				}
			}
		}
		refuse(p.path, "the package", filepath.Base(p.path))
		for file, f := range p.files {
			if isGenerated(f) {
				continue
			}
			refuse(file, "the file", strings.TrimSuffix(filepath.Base(file), ".go"))
			for _, id := range declared(f) {
				refuse(p.fset.Position(id.Pos()).String(), "the name", id.Name)
			}
		}
	}
}

// TestWordsOfTestsAreTheFieldsOwn refuses the same names in tests: who reads a test searches for
// the same words.
func TestWordsOfTestsAreTheFieldsOwn(t *testing.T) {
	list, allowed := readWords(t)
	for _, rel := range testFiles(t) {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, filepath.Join(root(t), rel), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.ToSlash(filepath.Dir(rel))
		refuse := func(where, what, name string) {
			for _, b := range list {
				if b.in != "" && !below(dir, b.in) || allowed[dir+" "+name] {
					continue
				}
				if contains(split(name), b.words) {
					t.Errorf("%s: %s %q says %q: write %s", where, what, name, strings.Join(b.words, " "),
						b.replacement)
				}
			}
		}
		refuse(rel, "the file", strings.TrimSuffix(filepath.Base(rel), ".go"))
		for _, id := range declared(f) {
			refuse(fset.Position(id.Pos()).String(), "the name", id.Name)
		}
	}
}

// TestWordsOfCommentsAreTheFieldsOwn refuses the same words in comments, tests' included, but for
// those that words.txt calls plain: ordinary verbs and nouns that are misleading only as names. A
// name of code within a comment, with a capital inside, is not looked at.
func TestWordsOfCommentsAreTheFieldsOwn(t *testing.T) {
	list, _ := readWords(t)
	plain := plainWords(t)
	list = slices.DeleteFunc(list, func(b banned) bool { return plain[strings.Join(b.words, " ")] })
	walk(t, func(rel string) {
		if !strings.HasSuffix(rel, ".go") {
			return
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, filepath.Join(root(t), rel), nil,
			parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if isGenerated(f) {
			return
		}
		for _, group := range f.Comments {
			words := proseWords(group.Text())
			for _, b := range list {
				if (b.in == "" || below(filepath.ToSlash(filepath.Dir(rel)), b.in)) && contains(words, b.words) {
					t.Errorf("%s:%d: the comment says %q: write %s, or say it plainly (an exception is a "+
						"word after `plain` in internal/arch/words.txt)", rel, fset.Position(group.Pos()).Line,
						strings.Join(b.words, " "), b.replacement)
				}
			}
		}
	})
}

var proseWord = regexp.MustCompile(`[A-Za-z][A-Za-z']*`)

// proseWords are the words of a text in lower case; a name such as fanOut is "", so that no run of
// words goes over it.
func proseWords(text string) []string {
	out := proseWord.FindAllString(text, -1)
	for i, w := range out {
		if strings.ToLower(w[1:]) != w[1:] {
			out[i] = ""
			continue
		}
		out[i] = strings.ToLower(w)
	}
	return out
}

// plainWords are the words after `plain` in words.txt.
func plainWords(t *testing.T) map[string]bool {
	t.Helper()
	raw, err := os.ReadFile("words.txt")
	if err != nil {
		t.Fatal(err)
	}
	plain := map[string]bool{}
	for _, line := range strings.Split(string(raw), "\n") {
		if rest, ok := strings.CutPrefix(line, "plain "); ok {
			for _, w := range strings.Fields(rest) {
				plain[w] = true
			}
		}
	}
	return plain
}

// readWords reads words.txt: `word … -> replacement`, `DIR: word … -> replacement`, and
// `allow PACKAGE NAME` for the name of a library's interface or of an upstream type.
func readWords(t *testing.T) (list []banned, allowed map[string]bool) {
	t.Helper()
	raw, err := os.ReadFile("words.txt")
	if err != nil {
		t.Fatal(err)
	}
	allowed = map[string]bool{}
	for _, line := range strings.Split(string(raw), "\n") {
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, "plain ") {
			continue
		}
		if rest, ok := strings.CutPrefix(line, "allow "); ok {
			allowed[rest] = true
			continue
		}
		words, replacement, ok := strings.Cut(line, " -> ")
		if !ok {
			t.Fatalf("words.txt: %q is no rule: write `word -> replacement`", line)
		}
		b := banned{replacement: replacement}
		if dir, rest, ok := strings.Cut(words, ": "); ok {
			b.in, words = dir, rest
		}
		b.words = strings.Fields(strings.ToLower(words))
		list = append(list, b)
	}
	return list, allowed
}

// declared lists the names that f declares outside of functions: types, functions, methods, struct
// fields, interface methods, constants and variables.
func declared(f *ast.File) []*ast.Ident {
	var out []*ast.Ident
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			out = append(out, d.Name)
		case *ast.GenDecl:
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncLit, *ast.CompositeLit, *ast.FuncType:
					return false
				case *ast.TypeSpec:
					out = append(out, n.Name)
				case *ast.ValueSpec:
					out = append(out, n.Names...)
				case *ast.Field:
					out = append(out, n.Names...)
				}
				return true
			})
		}
	}
	return out
}

// split takes a name apart: podShape, pod_shape and PodShape are [pod shape], HTTPGet is [http
// get].
func split(name string) []string {
	var out []string
	word := []rune{}
	flush := func() {
		if len(word) > 0 {
			out = append(out, strings.ToLower(string(word)))
			word = word[:0]
		}
	}
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			flush()
			continue
		case unicode.IsUpper(r) && i > 0 && unicode.IsLower(runes[i-1]),
			unicode.IsUpper(r) && i+1 < len(runes) && unicode.IsLower(runes[i+1]):
			flush()
		}
		word = append(word, r)
	}
	flush()
	return out
}

// contains reports whether words follow each other in name.
func contains(name, words []string) bool {
	for i := 0; i+len(words) <= len(name); i++ {
		same := true
		for k, w := range words {
			same = same && name[i+k] == w
		}
		if same {
			return true
		}
	}
	return false
}

func TestNamesAreTakenApart(t *testing.T) {
	for name, want := range map[string]string{
		"podShape": "pod shape", "HTTPGet": "http get", "theLongWay": "the long way",
		"pod_shape_test": "pod shape test",
		"v1Pod":          "v pod", "X": "x",
	} {
		if got := strings.Join(split(name), " "); got != want {
			t.Errorf("split(%q) = %q, want %q", name, got, want)
		}
	}
}
