package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

const module = "github.com/gantry-project/gantry"

// pkg is one package of the tree: its path below the module and its parsed files without tests.
type pkg struct {
	path  string
	fset  *token.FileSet
	files map[string]*ast.File // by path below the repository
}

// root is the repository's top folder.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// tree parses every package of the module, sorted by path. Nested modules and generated folders are
// left out.
func tree(t *testing.T) []pkg {
	t.Helper()
	byPath := map[string]*pkg{}
	walk(t, func(rel string) {
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return
		}
		dir := filepath.Dir(rel)
		p := byPath[dir]
		if p == nil {
			p = &pkg{path: dir, fset: token.NewFileSet(), files: map[string]*ast.File{}}
			byPath[dir] = p
		}
		f, err := parser.ParseFile(p.fset, filepath.Join(root(t), rel), nil,
			parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		p.files[rel] = f
	})
	out := make([]pkg, 0, len(byPath))
	for _, p := range byPath {
		out = append(out, *p)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].path < out[j].path })
	return out
}

func isGenerated(f *ast.File) bool { return ast.IsGenerated(f) }

// testFiles lists the _test.go files of the module by path below the repository.
func testFiles(t *testing.T) []string {
	t.Helper()
	var out []string
	walk(t, func(rel string) {
		if strings.HasSuffix(rel, "_test.go") {
			out = append(out, rel)
		}
	})
	return out
}

// walk calls do with every file of the module; nested modules and generated folders are left out.
func walk(t *testing.T, do func(rel string)) {
	t.Helper()
	top := root(t)
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(top, path)
		if !d.IsDir() {
			do(rel)
			return nil
		}
		if name := d.Name(); rel != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "build" ||
			name == "docs") {
			return filepath.SkipDir
		}
		if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && rel != "." {
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
