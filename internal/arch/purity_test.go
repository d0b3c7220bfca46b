package arch

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// impure are packages that a deciding package does not import.
var impure = []string{"os", "net", "sync", "log", "log/slog", "context/log", "math/rand", "math/rand/v2", "io/ioutil",
	"syscall", "time/tick", "k8s.io/klog/v2", "k8s.io/client-go/kubernetes", "k8s.io/client-go/rest",
	"golang.org/x/sys/unix", "google.golang.org/grpc"}

var wallClock = map[string]bool{"Now": true, "Since": true, "Until": true, "After": true, "AfterFunc": true,
	"Sleep": true, "NewTimer": true, "NewTicker": true, "Tick": true}

func TestDecidingPackagesArePure(t *testing.T) {
	l := readLattice(t)
	for _, p := range tree(t) {
		class := l.class(p.path)
		for file, f := range p.files {
			decides := below(p.path, "internal/control") && filepath.Base(file) == "decide.go"
			if class == "pure" || class == "vocab" || decides {
				for _, fault := range impurities(p.fset, f) {
					t.Errorf("%s: %s. Deciding code takes time and facts as arguments and returns values; move the "+
						"act to the shell", file, fault)
				}
			}
		}
	}
}

func impurities(fset *token.FileSet, f *ast.File) []string {
	var out []string
	say := func(n ast.Node, what string) { out = append(out, fset.Position(n.Pos()).String()+": "+what) }
	for _, spec := range f.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		for _, bad := range impure {
			if path == bad {
				say(spec, "imports "+path)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			say(n, "starts a goroutine")
		case *ast.SelectStmt:
			say(n, "selects")
		case *ast.ChanType:
			say(n, "has a channel")
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && wallClock[n.Sel.Name] {
				say(n, "reads the wall clock (time."+n.Sel.Name+")")
			}
		}
		return true
	})
	return out
}
