package finding

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every code that a rule gives stands in Codes and on the page, and no other.
func TestCodesAreDocumented(t *testing.T) {
	given := map[string]bool{}
	for reason := range jobFields {
		given[reason] = true
	}
	code := regexp.MustCompile(`^"[A-Z][A-Za-z]+"$`)
	note := func(e ast.Expr) {
		if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING && code.MatchString(l.Value) {
			given[strings.Trim(l.Value, `"`)] = true
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(files, "../findings.go", "../endfindings.go", "../nodenotready.go", "../driver.go",
		"../causefinding.go", "../restrictions.go",
		"../deletedby.go", "../service.go", "../starting.go", "../hooks.go", "../probefield.go", "../initfile.go",
		"../changedbefore.go", "../endedbytaint.go", "../roomheld.go", "../gangmembers.go", "../kernelkills.go",
		"../profiles.go",
		"../sandbox.go", "../claimvolume.go", "../startedagain.go", "../sharedlimits.go", "../kubeletrefused.go",
		"../staticmanifest.go", "../fieldfailures.go", "../nodeandclaim.go", "../mountoptions.go",
		"../resizerestart.go", "../selinux.go") {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil || strings.HasSuffix(name, "_test.go") {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.KeyValueExpr:
				if k, ok := x.Key.(*ast.Ident); ok && k.Name == "Code" {
					note(x.Value)
				}
			case *ast.AssignStmt:
				for i, l := range x.Lhs {
					s, field := l.(*ast.SelectorExpr)
					v, variable := l.(*ast.Ident)
					if len(x.Lhs) == len(x.Rhs) && (field && s.Sel.Name == "Code" || variable && v.Name == "code") {
						note(x.Rhs[i])
					}
				}
			case *ast.CallExpr:
				if v, ok := x.Fun.(*ast.Ident); ok && v.Name == "number" && len(x.Args) > 0 {
					note(x.Args[0])
				}
			}
			return true
		})
	}
	page, err := os.ReadFile("../../../docs/user/findings.md")
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, c := range Codes {
		codes = append(codes, c[0])
		if !given[c[0]] {
			t.Errorf("no rule gives %s", c[0])
		}
		if row := fmt.Sprintf("| `%s` | %s |\n", c[0], c[1]); !strings.Contains(string(page), row) {
			t.Errorf("docs/user/findings.md lacks the row %q", row)
		}
		delete(given, c[0])
	}
	if !slices.IsSorted(codes) {
		t.Error("Codes is not in the order of the alphabet")
	}
	for c := range given {
		t.Errorf("Codes lacks %s", c)
	}
	if n := strings.Count(string(page), "| `"); n != len(Codes) {
		t.Errorf("docs/user/findings.md has %d rows, Codes %d", n, len(Codes))
	}
}
