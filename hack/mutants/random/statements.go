package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
)

// statements leaves out statements of a list.
func (v *visitor) statements(list []ast.Stmt) {
	for i, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); ok && !v.leftAlone(s) && !v.leftAlone(call) {
				v.without(s, "call left out")
			}
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE && !isBlank(s) && !appends(s) {
				v.without(s, "assignment left out")
			}
		case *ast.IncDecStmt:
			v.without(s, "assignment left out")
		case *ast.BranchStmt:
			if s.Tok == token.BREAK || s.Tok == token.CONTINUE {
				v.without(s, s.Tok.String()+" left out")
			}
		case *ast.ReturnStmt:
			if i == len(list)-1 && v.early() {
				v.without(s, "return left out")
			}
		}
	}
}

// isBlank tells whether an assignment only throws away.
func isBlank(s *ast.AssignStmt) bool {
	for _, l := range s.Lhs {
		if id, ok := l.(*ast.Ident); !ok || id.Name != "_" {
			return false
		}
	}
	return true
}

// appends tells whether an assignment is x = append(…), which appended changes.
func appends(s *ast.AssignStmt) bool {
	if len(s.Rhs) != 1 {
		return false
	}
	call, ok := s.Rhs[0].(*ast.CallExpr)
	if !ok {
		return false
	}
	id, ok := call.Fun.(*ast.Ident)
	return ok && id.Name == "append"
}

func (v *visitor) without(s ast.Stmt, kind string) {
	from, to := v.span(s)
	v.add(s, kind, func(on string, text renderer) string {
		return fmt.Sprintf("if !%s { %s }", on, text(from, to))
	})
}

// early tells whether the list of statements being visited does not have to end in a return for the
// function to compile. The list's owner is the last of the stack.
func (v *visitor) early() bool {
	for i := len(v.stack) - 1; i > 0; i-- {
		n, parent := v.stack[i], v.stack[i-1]
		switch p := parent.(type) {
		case *ast.IfStmt:
			if p.Else == nil {
				return true
			}
		case *ast.ForStmt, *ast.RangeStmt:
			return true
		case *ast.FuncLit:
			return false // its last return
		case *ast.BlockStmt:
			switch n.(type) {
			case *ast.CaseClause: // its switch decides
			case *ast.CommClause:
				return false
			default:
				if p.List[len(p.List)-1] != n {
					return true
				}
			}
		case *ast.CaseClause:
			if p.Body[len(p.Body)-1] != n {
				return true
			}
		case *ast.SwitchStmt:
			if !hasDefault(p.Body) {
				return true
			}
		case *ast.TypeSwitchStmt:
			if !hasDefault(p.Body) {
				return true
			}
		}
	}
	return false
}

func hasDefault(b *ast.BlockStmt) bool {
	for _, c := range b.List {
		if c, ok := c.(*ast.CaseClause); ok && c.List == nil {
			return true
		}
	}
	return false
}

// returned changes what a return statement gives back.
func (v *visitor) returned(s *ast.ReturnStmt) {
	results := v.results[len(v.results)-1]
	if results.Len() != len(s.Results) {
		return
	}
	for i, e := range s.Results {
		want, have := results.At(i).Type(), v.info.Types[e]
		if have.IsNil() || have.Type == nil {
			continue
		}
		from, to := v.span(e)
		if types.TypeString(want, nil) == "error" {
			v.add(e, "error to nil", func(on string, text renderer) string {
				return fmt.Sprintf("mutantNil(%s, %s)", on, text(from, to))
			})
			continue
		}
		switch want.Underlying().(type) {
		case *types.Basic:
			v.negate(e, "result flipped")
		case *types.Pointer, *types.Slice, *types.Map, *types.Interface:
			if types.Identical(want, have.Type) {
				v.add(e, "result to nil", func(on string, text renderer) string {
					return fmt.Sprintf("mutantZero(%s, %s)", on, text(from, to))
				})
			}
		}
	}
}
