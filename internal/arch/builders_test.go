package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// TestBuildersOfTestsAreOne refuses a function of a test that builds the Pod or Node it returns
// from a literal: test/wrappers builds them, in the words of kube-scheduler's tests.
func TestBuildersOfTestsAreOne(t *testing.T) {
	for _, file := range testFiles(t) {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, filepath.Join(root(t), file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil || fn.Type.Results.NumFields() != 1 {
				continue
			}
			kind := builtKind(fn.Type.Results.List[0].Type)
			if n := literalOf(fn.Body, kind); n != nil {
				t.Errorf("%s:%d: %s builds a %s from a literal: begin with wrappers.Make%s of test/wrappers", file,
					fset.Position(n.Pos()).Line, fn.Name.Name, kind, kind)
			}
		}
	}
}

// builtKind is Pod or Node for the types *v1.Pod and *v1.Node, whatever the package is called.
func builtKind(e ast.Expr) string {
	star, ok := e.(*ast.StarExpr)
	if !ok {
		return ""
	}
	s, ok := star.X.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "Pod" && s.Sel.Name != "Node" {
		return ""
	}
	if x, ok := s.X.(*ast.Ident); !ok || x.Name != "v1" && x.Name != "corev1" {
		return ""
	}
	return s.Sel.Name
}

// literalOf finds a literal &v1.KIND{…} with fields; an empty one is to be decoded into.
func literalOf(body *ast.BlockStmt, kind string) (found ast.Node) {
	if kind == "" {
		return nil
	}
	ast.Inspect(body, func(n ast.Node) bool {
		u, ok := n.(*ast.UnaryExpr)
		if !ok || u.Op != token.AND {
			return true
		}
		if l, ok := u.X.(*ast.CompositeLit); ok && len(l.Elts) > 0 && l.Type != nil &&
			builtKind(&ast.StarExpr{X: l.Type}) == kind {
			found = n
		}
		return true
	})
	return found
}

func TestLiteralsOfBuildersAreFound(t *testing.T) {
	for body, want := range map[string]bool{"return &v1.Pod{Spec: s}": true, "p := &v1.Pod{}\nreturn p": false,
		"p := &v1.Node{Spec: s}\nreturn of(p)": false, "return wrappers.MakePod().Obj()": false} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() *v1.Pod {\n"+body+"\n}", 0)
		if err != nil {
			t.Fatal(err)
		}
		fn := f.Decls[0].(*ast.FuncDecl)
		if got := literalOf(fn.Body, builtKind(fn.Type.Results.List[0].Type)) != nil; got != want {
			t.Errorf("%q: got a literal %v, want %v", body, got, want)
		}
	}
}
