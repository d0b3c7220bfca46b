package arch

import (
	"fmt"
	"go/ast"
	"strings"
	"testing"
)

// flatFields is how many fields a struct may have once the structs it is made of are opened up.
const flatFields = 25

// TestStateIsFlat counts the fields of every struct of the product with embedded structs, and
// unexported structs that only one field of the package has as its type, opened up: splitting a
// type into such parts moves fields and takes none away. Parts with their own constructors and
// interfaces do.
func TestStateIsFlat(t *testing.T) {
	structs := map[string]*ast.StructType{} // by package path and name
	imports := map[string]map[string]string{}
	uses := map[string]int{} // fields of type T or *T, by package path and name
	where := map[string]string{}
	for _, p := range tree(t) {
		if readLattice(t).class(p.path) == "tests" {
			continue
		}
		for file, f := range p.files {
			if isGenerated(f) {
				continue
			}
			paths := map[string]string{}
			for _, s := range f.Imports {
				if own, ok := strings.CutPrefix(strings.Trim(s.Path.Value, `"`), module+"/"); ok {
					name := own[strings.LastIndexByte(own, '/')+1:]
					if s.Name != nil {
						name = s.Name.Name
					}
					paths[name] = own
				}
			}
			for _, d := range f.Decls {
				g, ok := d.(*ast.GenDecl)
				if !ok {
					continue
				}
				for _, s := range g.Specs {
					ts, ok := s.(*ast.TypeSpec)
					if !ok {
						continue
					}
					st, ok := ts.Type.(*ast.StructType)
					if !ok {
						continue
					}
					key := p.path + " " + ts.Name.Name
					structs[key], imports[key], where[key] = st, paths, file
					for _, field := range st.Fields.List {
						uses[typeKey(p.path, paths, field.Type)] += max(len(field.Names), 1)
					}
				}
			}
		}
	}
	c := counter{structs: structs, imports: imports, uses: uses}
	allowed := readBudgets(t)
	for key := range structs {
		pkg, name, _ := strings.Cut(key, " ")
		n := c.count(key, map[string]bool{})
		most, listed := allowed["flat "+pkg+"."+name]
		if listed && n < most {
			t.Errorf("%s.%s holds %d fields and may hold %d: write the smaller figure into "+
				"internal/arch/budgets.txt, or delete its line", pkg, name, n, most)
		}
		if n > max(flatFields, most) && !isAPI(structs[key]) {
			t.Errorf("%s: %s.%s holds %d fields, its parts opened up, at most %d: make parts of it with constructors "+
				"of their own that talk through small interfaces", where[key], pkg, name, n, flatFields)
		}
	}
}

type counter struct {
	structs map[string]*ast.StructType
	imports map[string]map[string]string
	uses    map[string]int
}

// count returns the flat fields of the struct key. seen guards against types that hold themselves.
func (c counter) count(key string, seen map[string]bool) int {
	if seen[key] {
		return 1
	}
	seen[key] = true
	defer delete(seen, key)
	pkg, _, _ := strings.Cut(key, " ")
	n := 0
	for _, f := range c.structs[key].Fields.List {
		of := typeKey(pkg, c.imports[key], f.Type)
		embedded := len(f.Names) == 0
		_, name, _ := strings.Cut(of, " ")
		private := strings.HasPrefix(of, pkg+" ") && !ast.IsExported(name) && c.uses[of] == 1
		if c.structs[of] != nil && (embedded || private) {
			n += c.count(of, seen)
			continue
		}
		n += max(len(f.Names), 1)
	}
	return n
}

// typeKey names the type of a field that is T, *T, pkg.T or *pkg.T of this module; else it is
// empty.
func typeKey(pkg string, imports map[string]string, typ ast.Expr) string {
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	switch typ := typ.(type) {
	case *ast.Ident:
		return fmt.Sprintf("%s %s", pkg, typ.Name)
	case *ast.SelectorExpr:
		if x, ok := typ.X.(*ast.Ident); ok && imports[x.Name] != "" {
			return fmt.Sprintf("%s %s", imports[x.Name], typ.Sel.Name)
		}
	}
	return ""
}

// isAPI reports whether a struct is a document: all its fields have tags, as kinds of an API do.
func isAPI(s *ast.StructType) bool {
	for _, f := range s.Fields.List {
		if f.Tag == nil {
			return false
		}
	}
	return true
}
