package arch

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// rendered are the pages that a program writes; their own tests compare them with what they come
// from.
var rendered = []string{
	packagesPage, "docs/compatibility/features.md", "docs/compatibility/differences.md",
	"docs/compatibility/conformance.md", "docs/compatibility/storage.md", "docs/user/commands.md",
	"docs/user/metrics.md",
	"docs/performance/README.md", "docs/contributing/mutants.md",
}

// pageLines bounds the length of pages; the longest matching prefix counts.
var pageLines = map[string]int{
	"": 250, "docs/ROADMAP.md": 40, "docs/architecture/": 150, "docs/architecture/life-of-a-pod.md": 250,
	"docs/performance/README.md": 150, "docs/performance/history.md": 1000,
}

// diary are phrases that describe the past; what changed when is in docs/performance/history.md
// alone.
var diary = []string{
	"since then", "hour earlier", "until now", "as of now", "previously", "formerly", "at the last stop",
	"used to be", "in the past", "at the draw", "at first", "so far", "any more", "has been mended", "was mended",
}

var (
	link = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]+)\)`)
	name = regexp.MustCompile("^`([A-Za-z0-9_.]+)`$")
)

type page struct {
	path  string // below the repository
	lines []string
}

func pages(t *testing.T) []page {
	t.Helper()
	var out []page
	add := func(path string) {
		raw, err := os.ReadFile(filepath.Join(root(t), path))
		if err != nil {
			t.Fatal(err)
		}
		p := page{path: path}
		for s := bufio.NewScanner(strings.NewReader(string(raw))); s.Scan(); {
			p.lines = append(p.lines, s.Text())
		}
		out = append(out, p)
	}
	add("README.md")
	err := filepath.WalkDir(filepath.Join(root(t), "docs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, ".md") {
			rel, _ := filepath.Rel(root(t), path)
			add(rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPagesAreForPeople(t *testing.T) {
	for _, p := range pages(t) {
		if n, most := len(p.lines), mostLines(p.path); n > most && (!slices.Contains(rendered, p.path) ||
			pageLines[p.path] != 0) {
			t.Errorf("%s has %d lines, at most %d: keep what a reader looks for, link to the rest", p.path, n, most)
		}
		if slices.Contains(rendered, p.path) {
			continue
		}
		history := p.path == "docs/performance/history.md" || strings.HasPrefix(p.path, "docs/adr/")
		code := false
		for i, line := range p.lines {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
				continue
			}
			free := code || history || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "[") ||
				strings.HasPrefix(line, "!")
			if wide := utf8.RuneCountInString(link.ReplaceAllString(line, "$1")); wide > textColumns && !free {
				t.Errorf("%s:%d: %d columns, at most %d", p.path, i+1, wide, textColumns)
			}
			for _, d := range diary {
				if !history && !code && strings.Contains(strings.ToLower(line), d) {
					t.Errorf("%s:%d says %q: say what holds today; what changed goes to docs/performance/history.md",
						p.path,
						i+1, d)
				}
			}
		}
	}
}

func mostLines(path string) int {
	best := ""
	for prefix := range pageLines {
		if strings.HasPrefix(path, prefix) && len(prefix) > len(best) {
			best = prefix
		}
	}
	return pageLines[best]
}

// TestLinksLead checks that what a page links to is there; a link named like a function, type or
// constant in code style must lead to the file or package that declares it.
func TestLinksLead(t *testing.T) {
	for _, p := range pages(t) {
		for i, line := range p.lines {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				target, _, _ := strings.Cut(m[2], "#")
				if target == "" || strings.Contains(target, "://") {
					continue
				}
				full := filepath.Join(root(t), filepath.Dir(p.path), target)
				if _, err := os.Stat(full); err != nil {
					t.Errorf("%s:%d links to %s, which is not there", p.path, i+1, target)
					continue
				}
				if id := name.FindStringSubmatch(m[1]); id != nil && strings.HasSuffix(target, ".go") {
					parts := strings.Split(id[1], ".")
					if want := parts[len(parts)-1]; !declares(t, full, want) {
						t.Errorf("%s:%d: %s does not declare %s", p.path, i+1, target, want)
					}
				}
			}
		}
	}
}

// declares reports whether the Go file declares name, outside of functions.
func declares(t *testing.T, file, name string) bool {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(declared(f), func(id *ast.Ident) bool { return id.Name == name })
}

// TestGlossaryIsTrue checks that the glossary has its terms and that the packages it names are
// there.
func TestGlossaryIsTrue(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root(t), "docs/GLOSSARY.md"))
	if err != nil {
		t.Fatal(err)
	}
	terms := 0
	for i, line := range strings.Split(string(raw), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || strings.HasPrefix(strings.TrimSpace(cells[1]), "---") {
			continue
		}
		terms++
		for _, p := range regexp.MustCompile("`((?:internal|scheduler|testcluster)/[a-z0-9/]+)`").FindAllStringSubmatch(
			line, -1) {
			if _, err := os.Stat(filepath.Join(root(t), p[1])); err != nil {
				t.Errorf("docs/GLOSSARY.md:%d names %s, which is not there", i+1, p[1])
			}
		}
	}
	if terms < 50 {
		t.Errorf("docs/GLOSSARY.md has %d terms, want at least 50", terms)
	}
}
