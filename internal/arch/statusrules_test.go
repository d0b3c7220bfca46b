package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

// endings are the pairs of values of which a Pod or a Job has one when it has ended, with the
// function that says so.
var endings = []struct{ succeeded, failed, instead string }{
	{"PodSucceeded", "PodFailed", "pod.IsTerminal or pod.IsPhaseTerminal"},
	{"JobComplete", "JobFailed", "job.FinishedCondition or job.IsFinished"},
}

// conditionTypes are the names of the API's constants for conditions of Pods and Nodes.
var conditionTypes = []string{"PodScheduled", "PodReady", "PodInitialized", "ContainersReady",
	"DisruptionTarget", "PodReadyToStartContainers", "PodResizePending", "PodResizeInProgress",
	"AllContainersRestarting", "NodeReady", "NodeMemoryPressure", "NodeDiskPressure", "NodePIDPressure",
	"NodeNetworkUnavailable"}

// TestStatusRulesAreWrittenOnce refuses what internal/pod, internal/node and internal/job say in
// one function each, written out elsewhere in the product: that a Pod or Job has ended, that a Pod
// is a mirror, and the search of one condition.
func TestStatusRulesAreWrittenOnce(t *testing.T) {
	l := readLattice(t)
	for _, p := range tree(t) {
		if class := l.class(p.path); class == "tests" || class == "vocab" {
			continue
		}
		for file, f := range p.files {
			for _, r := range statusRules(f) {
				t.Errorf("%s:%d: the rule is written out: call %s", file, p.fset.Position(r.at).Line, r.instead)
			}
		}
	}
}

// statusRule is a place where a rule is written out, and the function that has it.
type statusRule struct {
	at      token.Pos
	instead string
}

func statusRules(f *ast.File) []statusRule {
	var out []statusRule
	ast.Inspect(f, func(n ast.Node) bool {
		instead := ""
		switch n := n.(type) {
		case *ast.BinaryExpr:
			compared := comparedWith(n)
			for _, e := range endings {
				if slices.Contains(compared, e.succeeded) && slices.Contains(compared, e.failed) {
					out = append(out, statusRule{n.Pos(), e.instead})
					return false
				}
			}
		case *ast.AssignStmt:
			if asksForMirror(n) {
				instead = "pod.IsMirror"
			}
		case *ast.RangeStmt:
			if seeksCondition(n) {
				instead = "pod.Condition or node.Condition"
			}
		case *ast.FuncDecl:
			if isConditionLookup(n) {
				instead = "pod.Condition or node.Condition"
			}
		}
		if instead != "" {
			out = append(out, statusRule{n.Pos(), instead})
		}
		return true
	})
	return out
}

// comparedWith lists the names of packages' constants that the parts of a || b or a && b are
// compared with.
func comparedWith(e ast.Expr) []string {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return comparedWith(e.X)
	case *ast.BinaryExpr:
		if e.Op == token.LOR || e.Op == token.LAND {
			return append(comparedWith(e.X), comparedWith(e.Y)...)
		}
		if e.Op == token.EQL || e.Op == token.NEQ {
			if s, ok := e.Y.(*ast.SelectorExpr); ok {
				return []string{s.Sel.Name}
			}
		}
	}
	return nil
}

// asksForMirror reports whether a is _, x := ….Annotations[….MirrorPodAnnotationKey].
func asksForMirror(a *ast.AssignStmt) bool {
	if len(a.Lhs) != 2 || len(a.Rhs) != 1 {
		return false
	}
	if blank, ok := a.Lhs[0].(*ast.Ident); !ok || blank.Name != "_" {
		return false
	}
	at, ok := a.Rhs[0].(*ast.IndexExpr)
	if !ok {
		return false
	}
	key, ok := at.Index.(*ast.SelectorExpr)
	return ok && key.Sel.Name == "MirrorPodAnnotationKey"
}

// seeksCondition reports whether r goes over conditions for one type of a Pod's or Node's: its body
// begins with a condition that wants that type, or goes on with the next one at another.
func seeksCondition(r *ast.RangeStmt) bool {
	if !overConditions(r) || len(r.Body.List) == 0 {
		return false
	}
	first, ok := r.Body.List[0].(*ast.IfStmt)
	if !ok || first.Else != nil {
		return false
	}
	wanted := !isContinue(first.Body)
	found := false
	ast.Inspect(first.Cond, func(n ast.Node) bool {
		e, ok := n.(*ast.BinaryExpr)
		if !ok || e.Op != token.EQL && e.Op != token.NEQ || (e.Op == token.EQL) != wanted {
			return true
		}
		s, ok := e.Y.(*ast.SelectorExpr)
		found = found || ok && slices.Contains(conditionTypes, s.Sel.Name)
		return true
	})
	return found
}

// isContinue reports whether a body is the statement continue alone.
func isContinue(b *ast.BlockStmt) bool {
	if len(b.List) != 1 {
		return false
	}
	s, ok := b.List[0].(*ast.BranchStmt)
	return ok && s.Tok == token.CONTINUE
}

func overConditions(r *ast.RangeStmt) bool {
	s, ok := r.X.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Conditions"
}

// isConditionLookup reports whether a function goes over conditions and returns one of a Pod or a
// Node.
func isConditionLookup(d *ast.FuncDecl) bool {
	if d.Body == nil || d.Type.Results.NumFields() != 1 {
		return false
	}
	star, ok := d.Type.Results.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	s, ok := star.X.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "PodCondition" && s.Sel.Name != "NodeCondition" {
		return false
	}
	for _, stmt := range d.Body.List {
		if r, ok := stmt.(*ast.RangeStmt); ok && overConditions(r) {
			return true
		}
	}
	return false
}

func TestStatusRulesWrittenOutAreFound(t *testing.T) {
	for body, want := range map[string]int{
		`return p.Phase == v1.PodFailed || p.Phase == v1.PodSucceeded`:                              1,
		`return n && (p.Phase == v1.PodSucceeded || p.Phase == v1.PodFailed)`:                       1,
		`return p.Phase != v1.PodSucceeded && x && p.Phase != v1.PodFailed`:                         1,
		`return p.Phase == v1.PodFailed || p.Phase == v1.PodPending`:                                0,
		`return (c.Type == b.JobFailed || c.Type == b.JobComplete) && c.Status == v1.ConditionTrue`: 1,
		`return has(j, b.JobFailed) || has(j, b.JobComplete)`:                                       0,
		`_, ok := p.Annotations[v1.MirrorPodAnnotationKey]; return ok`:                              1,
		`hash, ok := p.Annotations[v1.MirrorPodAnnotationKey]; return ok && hash != ""`:             0,
		`for _, c := range p.Status.Conditions { if c.Type == v1.PodReady { return true } }`:        1,
		`for i := range s.Conditions { if s.Conditions[i].Type != v1.NodeReady { continue }; f() }`: 1,
		`for _, c := range p.Status.Conditions { if c.Type != v1.NodeReady { f(c) } }`:              0,
		`for _, c := range p.Status.Conditions { if c.Type == other { return true } }`:              0,
		`for _, c := range p.Status.Conditions { switch { case c.Type == v1.PodReady: f() } }`:      0,
		`for _, c := range list { if c.Type == v1.PodReady { return true } }`:                       0,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() bool { "+body+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(statusRules(f)); got != want {
			t.Errorf("%s: got %d rules written out, want %d", body, got, want)
		}
	}
	const lookup = "package x\nfunc c(p *v1.Pod, t string) *v1.PodCondition {\nfor i := range p.Status.Conditions {\n" +
		"if p.Status.Conditions[i].Type == t { return nil } }\nreturn nil }"
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", lookup, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(statusRules(f)); got != 1 {
		t.Errorf("a lookup of its own: got %d rules written out, want 1", got)
	}
}
