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
	top := root(t)
	byPath := map[string]*pkg{}
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(top, path)
		if d.IsDir() {
			if name := d.Name(); rel != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "build" ||
				name == "docs") {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && rel != "." {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return nil
		}
		dir := filepath.Dir(rel)
		p := byPath[dir]
		if p == nil {
			p = &pkg{path: dir, fset: token.NewFileSet(), files: map[string]*ast.File{}}
			byPath[dir] = p
		}
		f, err := parser.ParseFile(p.fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		p.files[rel] = f
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out := make([]pkg, 0, len(byPath))
	for _, p := range byPath {
		out = append(out, *p)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].path < out[j].path })
	return out
}

func isGenerated(f *ast.File) bool { return ast.IsGenerated(f) }
