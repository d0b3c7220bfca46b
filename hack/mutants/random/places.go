package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
)

// mutations finds every place of the package that can be changed. Whether the change compiles is
// not known yet.
func (p *pkg) mutations() []*mutation {
	var out []*mutation
	for _, f := range p.files {
		if !f.mutated {
			continue
		}
		v := &visitor{pkg: p, source: f, negated: map[ast.Expr]bool{}}
		for _, d := range f.file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				v.function(fn)
			} else if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				v.fn = "var"
				v.walk(g)
			}
		}
		out = append(out, v.found...)
	}
	number(out)
	for i, m := range out {
		m.id = i + 1
	}
	return out
}

// visitor finds the mutations of one file.
type visitor struct {
	*pkg
	source  *source
	fn      string // the function, as Type.Method
	found   []*mutation
	stack   []ast.Node
	results []*types.Tuple    // of the functions around, the innermost last
	negated map[ast.Expr]bool // conditions that are changed already
}

func (v *visitor) function(fn *ast.FuncDecl) {
	if fn.Body == nil {
		return
	}
	v.fn = fn.Name.Name
	sig := v.info.Defs[fn.Name].Type().(*types.Signature)
	if r := sig.Recv(); r != nil {
		t := r.Type()
		if ptr, ok := t.(*types.Pointer); ok {
			t = ptr.Elem()
		}
		name, _, _ := strings.Cut(types.TypeString(t, func(*types.Package) string { return "" }), "[")
		v.fn = name + "." + v.fn
	}
	v.results = append(v.results, sig.Results())
	v.walk(fn.Body)
	v.results = v.results[:len(v.results)-1]
}

func (v *visitor) walk(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		if n == nil {
			v.leave()
			return true
		}
		if v.leftAlone(n) {
			return false
		}
		v.stack = append(v.stack, n)
		if lit, ok := n.(*ast.FuncLit); ok {
			sig, _ := v.info.Types[lit].Type.(*types.Signature)
			v.results = append(v.results, sig.Results())
		}
		v.visit(n)
		return true
	})
}

func (v *visitor) leave() {
	if _, ok := v.stack[len(v.stack)-1].(*ast.FuncLit); ok {
		v.results = v.results[:len(v.results)-1]
	}
	v.stack = v.stack[:len(v.stack)-1]
}

// leftAlone tells whether nothing is changed in n: constants, types, calls that log or lock, and
// the arguments of make and panic.
func (v *visitor) leftAlone(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok != token.VAR
	case *ast.ExprStmt:
		call, ok := n.X.(*ast.CallExpr)
		return ok && (v.logs(call) || locks(call))
	case *ast.DeferStmt:
		return locks(n.Call)
	case *ast.CallExpr:
		id, ok := n.Fun.(*ast.Ident)
		return ok && (id.Name == "make" || id.Name == "panic")
	case *ast.FuncType, *ast.ArrayType, *ast.StructType, *ast.InterfaceType:
		return true
	}
	return false
}

// logs tells whether a call is one of klog's or of a logger's.
func (v *visitor) logs(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	if id, ok := sel.X.(*ast.Ident); ok {
		if name, ok := v.info.Uses[id].(*types.PkgName); ok {
			return strings.HasPrefix(name.Imported().Path(), "k8s.io/klog")
		}
	}
	t := v.info.Types[sel.X].Type
	if t == nil {
		return false
	}
	name := types.TypeString(t, nil)
	return strings.HasSuffix(name, "logr.Logger") || strings.HasSuffix(name, "klog/v2.Verbose")
}

func locks(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch sel.Sel.Name {
	case "Lock", "Unlock", "RLock", "RUnlock":
		return true
	}
	return false
}

func (v *visitor) visit(n ast.Node) {
	switch n := n.(type) {
	case *ast.IfStmt:
		v.condition(n.Cond)
	case *ast.ForStmt:
		if n.Cond != nil {
			v.condition(n.Cond)
		}
	case *ast.SwitchStmt:
		if n.Tag == nil {
			v.cases(n)
		}
	case *ast.BinaryExpr:
		v.binary(n)
	case *ast.BasicLit:
		v.literal(n)
	case *ast.CallExpr:
		v.appended(n)
	case *ast.ReturnStmt:
		v.returned(n)
	case *ast.BlockStmt:
		v.statements(n.List)
	case *ast.CaseClause:
		v.statements(n.Body)
	case *ast.CommClause:
		v.statements(n.Body)
	}
}

func (v *visitor) cases(n *ast.SwitchStmt) {
	for _, c := range n.Body.List {
		for _, e := range c.(*ast.CaseClause).List {
			v.condition(e)
		}
	}
}

// add notes a mutation that replaces n.
func (v *visitor) add(n ast.Node, kind string, build func(condition string, text renderer) string) {
	v.addText(n, kind, v.text(n), build)
}

func (v *visitor) addText(n ast.Node, kind, text string, build func(condition string, text renderer) string) {
	at := v.fset.Position(n.Pos())
	v.found = append(v.found, &mutation{Package: v.Path, File: filepath.Base(at.Filename), Line: at.Line, Func: v.fn,
		Kind: kind, Text: short(text), from: at.Offset, to: v.fset.Position(n.End()).Offset, build: build})
}

func (v *visitor) text(n ast.Node) string {
	return string(v.source.text[v.fset.Position(n.Pos()).Offset:v.fset.Position(n.End()).Offset])
}

// span is where n lies in the file.
func (v *visitor) span(n ast.Node) (int, int) {
	return v.fset.Position(n.Pos()).Offset, v.fset.Position(n.End()).Offset
}
