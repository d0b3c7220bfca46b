package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// condition negates a condition that is no comparison by == or !=; those are exchanged by binary.
func (v *visitor) condition(e ast.Expr) {
	v.negate(e, "condition negated")
}

func (v *visitor) negate(e ast.Expr, kind string) {
	e = ast.Unparen(e)
	if v.negated[e] || !v.plainBool(e) {
		return
	}
	if b, ok := e.(*ast.BinaryExpr); ok && (b.Op == token.EQL || b.Op == token.NEQ) {
		return
	}
	v.negated[e] = true
	from, to := v.span(e)
	v.add(e, kind, func(on string, text renderer) string {
		return fmt.Sprintf("((%s) != %s)", text(from, to), on)
	})
}

// plainBool tells whether e is a bool, and no constant unless it is written as true or false.
func (v *visitor) plainBool(e ast.Expr) bool {
	t := v.info.Types[e]
	if t.Type == nil {
		return false
	}
	if t.Value != nil {
		id, ok := e.(*ast.Ident)
		if !ok || (id.Name != "true" && id.Name != "false") {
			return false
		}
	}
	b, ok := types.Unalias(t.Type).(*types.Basic)
	return ok && b.Info()&types.IsBoolean != 0
}

func (v *visitor) binary(n *ast.BinaryExpr) {
	if v.info.Types[n].Value != nil {
		return
	}
	xf, xt := v.span(n.X)
	yf, yt := v.span(n.Y)
	switch n.Op {
	case token.EQL, token.NEQ:
		from, to := v.span(n)
		v.add(n, "== and != exchanged", func(on string, text renderer) string {
			return fmt.Sprintf("((%s) != %s)", text(from, to), on)
		})
	case token.LSS, token.GTR:
		v.add(n, "bound moved", func(on string, text renderer) string {
			x, y := text(xf, xt), text(yf, yt)
			return fmt.Sprintf("(%s %s %s || %s && %s == %s)", x, n.Op, y, on, x, y)
		})
	case token.LEQ, token.GEQ:
		v.add(n, "bound moved", func(on string, text renderer) string {
			x, y := text(xf, xt), text(yf, yt)
			return fmt.Sprintf("(%s %s %s && !(%s && %s == %s))", x, n.Op, y, on, x, y)
		})
	case token.LAND, token.LOR:
		if !v.plainBool(n.X) || !v.plainBool(n.Y) {
			return
		}
		v.add(n, "&& and || exchanged", func(on string, text renderer) string {
			return fmt.Sprintf("((((%s) != %s) %s ((%s) != %s)) != %s)", text(xf, xt), on, n.Op, text(yf, yt), on, on)
		})
	}
}

// literal changes a number or a string that does not have to be constant. What is replaced is the
// largest constant expression around it.
func (v *visitor) literal(lit *ast.BasicLit) {
	var changed, kind string
	switch lit.Kind {
	case token.INT:
		changed, kind = "("+lit.Value+"+1)", "number raised"
	case token.STRING:
		changed, kind = "("+lit.Value+`+"~")`, "string changed"
	default:
		return
	}
	var whole ast.Expr = lit
	i := len(v.stack) - 2
	for ; i >= 0; i-- {
		e, ok := v.stack[i].(ast.Expr)
		if !ok || v.info.Types[e].Value == nil {
			break
		}
		whole = e
	}
	if i >= 0 && isCaseOfType(v.stack[i]) {
		return
	}
	t, ok := v.typeName(v.info.Types[whole].Type)
	if !ok {
		return
	}
	from, to := v.span(whole)
	lf, lt := v.span(lit)
	src := v.source.text
	other := string(src[from:lf]) + changed + string(src[lt:to])
	text := v.text(whole)
	if p := v.stack[max(i, 0)]; i >= 0 && len(v.text(p)) < 160 {
		text = text + " in " + v.text(p)
	}
	v.addText(whole, kind, text, func(on string, text renderer) string {
		return fmt.Sprintf("mutantPick[%s](%s, %s, %s)", t, on, text(from, to), other)
	})
}

// isCaseOfType tells whether a literal right below n must stay: an import or a field's tag.
func isCaseOfType(n ast.Node) bool {
	switch n.(type) {
	case *ast.ImportSpec, *ast.Field:
		return true
	}
	return false
}

// typeName is how the file can write the type, or false.
func (v *visitor) typeName(t types.Type) (string, bool) {
	if t == nil {
		return "", false
	}
	t = types.Default(t)
	if b, ok := t.Underlying().(*types.Basic); !ok || b.Kind() == types.UntypedNil {
		return "", false
	}
	ok := true
	name := types.TypeString(t, func(p *types.Package) string {
		if p == v.types {
			return ""
		}
		for _, i := range v.source.file.Imports {
			if strings.Trim(i.Path.Value, `"`) != p.Path() {
				continue
			}
			if i.Name == nil {
				return p.Name()
			}
			if i.Name.Name != "_" && i.Name.Name != "." {
				return i.Name.Name
			}
		}
		ok = false
		return "?"
	})
	return name, ok
}

// appended drops what append adds.
func (v *visitor) appended(call *ast.CallExpr) {
	id, ok := call.Fun.(*ast.Ident)
	if !ok || id.Name != "append" || len(call.Args) < 2 {
		return
	}
	if _, ok := v.info.Uses[id].(*types.Builtin); !ok {
		return
	}
	from, to := v.span(call)
	bf, bt := v.span(call.Args[0])
	v.add(call, "appended dropped", func(on string, text renderer) string {
		return fmt.Sprintf("mutantDrop(%s, %s, %s)", on, string(v.source.text[bf:bt]), text(from, to))
	})
}
