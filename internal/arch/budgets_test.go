package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"os"
	"sort"
	"strings"
	"testing"
)

// Budgets of STYLE section 2. What is over is listed in budgets.txt with its figure, which may
// only shrink.
var budgets = map[string]int{"file": 400, "func": 80, "struct": 15, "params": 4, "results": 3}

func TestSizesStayInBudget(t *testing.T) {
	allowed := readBudgets(t)
	over := map[string]int{}
	for _, p := range tree(t) {
		for name, f := range p.files {
			if isGenerated(f) || readLattice(t).class(p.path) == "tests" {
				continue
			}
			for key, n := range measure(p, name, f) {
				if n > budgets[strings.Fields(key)[0]] {
					over[key] = n
				}
			}
		}
	}
	for key, n := range allowed { // state_test.go looks after these
		if strings.HasPrefix(key, "flat ") {
			over[key] = n
		}
	}
	if *rewrite {
		writeBudgets(t, over)
		return
	}
	for key, n := range over {
		switch was, ok := allowed[key]; {
		case !ok:
			t.Errorf("%s: %d, at most %d. Split it: by verb or stage (file), by step (func), into a struct (params, "+
				"results, struct)", key, n, budgets[strings.Fields(key)[0]])
		case n > was:
			t.Errorf("%s grew from %d to %d: budgets only shrink", key, was, n)
		}
	}
	for key := range allowed {
		if _, still := over[key]; !still {
			t.Errorf("%s is in budget now: delete its line from internal/arch/budgets.txt", key)
		}
	}
}

func measure(p pkg, name string, f *ast.File) map[string]int {
	out := map[string]int{"file " + name: p.fset.Position(f.FileEnd).Line}
	lines := func(n ast.Node) int { return p.fset.Position(n.End()).Line - p.fset.Position(n.Pos()).Line + 1 }
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			id := name + " " + funcName(d)
			out["func "+id] = lines(d)
			out["params "+id] = d.Type.Params.NumFields()
			if d.Type.Results != nil {
				out["results "+id] = d.Type.Results.NumFields()
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if ts, ok := s.(*ast.TypeSpec); ok {
					if st, ok := ts.Type.(*ast.StructType); ok {
						out["struct "+name+" "+ts.Name.Name] = st.Fields.NumFields()
					}
				}
			}
		}
	}
	return out
}

func funcName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if id, ok := typ.(*ast.Ident); ok {
		return id.Name + "." + d.Name.Name
	}
	return d.Name.Name
}

func readBudgets(t *testing.T) map[string]int {
	t.Helper()
	raw, err := os.ReadFile("budgets.txt")
	if err != nil && !*rewrite {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, line := range strings.Split(string(raw), "\n") {
		if i := strings.LastIndexByte(line, ' '); i > 0 && !strings.HasPrefix(line, "#") {
			var n int
			if _, err := fmt.Sscan(line[i+1:], &n); err != nil {
				t.Fatalf("budgets.txt: %q: got %v, want no error", line, err)
			}
			out[line[:i]] = n
		}
	}
	return out
}

func writeBudgets(t *testing.T, over map[string]int) {
	t.Helper()
	keys := make([]string, 0, len(over))
	for k := range over {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	var b bytes.Buffer
	b.WriteString("# What is over STYLE section 2's size budgets today; a line may shrink or go, never grow or come.\n")
	for _, k := range keys {
		fmt.Fprintf(&b, "%s %d\n", k, over[k])
	}
	if err := os.WriteFile("budgets.txt", b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
