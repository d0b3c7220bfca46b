package arch

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "rewrite docs/LIFE_OF_A_POD.md from the package docs and budgets.txt from the tree")

const docLines = 25

// chapter finds the number of the chapter a package tells: "Chapter 3, judged." opens its second paragraph.
var chapter = regexp.MustCompile(`(?m)^Chapters? (\d+)`)

var chapterTitles = []string{1: "Written", 2: "Waiting", 3: "Judged", 4: "Bound", 5: "Received", 6: "Driven", 7: "Furnished", 8: "Watched", 9: "Pressed", 10: "Ended"}

func packageDoc(p pkg) (file string, doc *ast.CommentGroup, text string) {
	for name, f := range p.files {
		if f.Doc != nil && (doc == nil || filepath.Base(name) == "doc.go") {
			file, doc, text = name, f.Doc, f.Doc.Text()
		}
	}
	return file, doc, text
}

func TestEveryPackageTellsItsCharter(t *testing.T) {
	for _, p := range tree(t) {
		file, doc, _ := packageDoc(p)
		if doc == nil {
			t.Errorf("%s has no package doc: add doc.go with chapter, charter, what comes in, what goes out, how to add", p.path)
			continue
		}
		if n := len(doc.List); n > docLines {
			t.Errorf("%s: the package doc has %d lines, at most %d: move detail to the code it is about", file, n, docLines)
		}
	}
}

func TestChaptersRenderLifeOfAPod(t *testing.T) {
	byChapter := map[int][]string{}
	for _, p := range tree(t) {
		_, _, text := packageDoc(p)
		m := chapter.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		byChapter[n] = append(byChapter[n], fmt.Sprintf("### `%s`\n\n%s\n", p.path, quoteDoc(text)))
	}
	var b bytes.Buffer
	b.WriteString("# The life of a Pod\n\nRendered from the package docs by `make stories`; edit those.\n")
	for n := 1; n < len(chapterTitles); n++ {
		if len(byChapter[n]) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %d. %s\n\n", n, chapterTitles[n])
		sort.Strings(byChapter[n])
		b.WriteString(strings.Join(byChapter[n], "\n"))
	}
	path := filepath.Join(root(t), "docs", "LIFE_OF_A_POD.md")
	if *rewrite {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(have, b.Bytes()) {
		t.Errorf("docs/LIFE_OF_A_POD.md is stale: run `make stories` and commit what it writes")
	}
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
