package arch

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false,
	"rewrite docs/architecture/packages.md from the package docs and budgets.txt from the tree")

const (
	docLines     = 25
	packagesPage = "docs/architecture/packages.md"
)

// packageDoc returns the doc comment of p, the one of doc.go first, and the file that holds it.
func packageDoc(p pkg) (file string, doc *ast.CommentGroup, text string) {
	for name, f := range p.files {
		if f.Doc != nil && (doc == nil || filepath.Base(name) == "doc.go") {
			file, doc, text = name, f.Doc, f.Doc.Text()
		}
	}
	return file, doc, text
}

func TestEveryPackageHasADoc(t *testing.T) {
	for _, p := range tree(t) {
		file, doc, _ := packageDoc(p)
		if doc == nil {
			t.Errorf("%s has no package doc: add doc.go: what it is for, what comes in, what goes out, what it may "+
				"not do, how to add to it", p.path)
			continue
		}
		if n := len(doc.List); n > docLines {
			t.Errorf("%s: the package doc has %d lines, at most %d: move detail to the code it is about",
				file, n, docLines)
		}
	}
}

func TestPagesHoldEveryPackage(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("# Packages\n\nThe doc of every package, by directory. Rendered by `make stories`; edit the " +
		"package docs.\n")
	room := ""
	for _, p := range tree(t) {
		if r := roomOf(p.path); r != room {
			room = r
			fmt.Fprintf(&b, "\n## %s\n", room)
		}
		_, _, text := packageDoc(p)
		fmt.Fprintf(&b, "\n### `%s`\n\n%s\n", p.path, quoteDoc(text))
	}
	path := filepath.Join(root(t), packagesPage)
	if *rewrite {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(have, b.Bytes()) {
		t.Errorf("%s is stale: run `make stories` and commit what it writes (%v)", packagesPage, err)
	}
}

// roomOf names the part of the tree that a package belongs to: the first two elements below
// internal, the first one elsewhere.
func roomOf(path string) string {
	parts := strings.Split(path, "/")
	if parts[0] == "internal" && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

// quoteDoc renders a package doc as Markdown: indented blocks stay code.
func quoteDoc(text string) string {
	var out []string
	code := false
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		isCode := strings.HasPrefix(line, "\t")
		if isCode != code && (isCode || strings.TrimSpace(line) != "") {
			out = append(out, "```")
			code = isCode
		}
		out = append(out, strings.TrimPrefix(line, "\t"))
	}
	if code {
		out = append(out, "```")
	}
	return strings.Join(out, "\n")
}
