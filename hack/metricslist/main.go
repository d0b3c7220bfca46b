// Program metricslist prints the metrics that the packages of a Kubernetes program define: type,
// name, labels, as test/metriclist/testdata has them.
//
// It reads lines "IMPORT-PATH DIRECTORY" from standard input, as
//
//	go list -deps -f '{{if not .Standard}}{{.ImportPath}} {{.Dir}}{{end}}' \
//	    k8s.io/kubernetes/cmd/kube-apiserver
//
// writes them in a module that requires k8s.io/kubernetes. What it cannot read it names on standard
// error.
package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// library has the constructors of metrics, and what only wraps them.
const library = "k8s.io/component-base/metrics"

// source is a package: its files, and the values of its constants.
type source struct {
	files  []*ast.File
	values map[string]ast.Expr
	fileOf map[string]*ast.File
}

func main() {
	all := map[string]*source{}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if path, dir, ok := strings.Cut(in.Text(), " "); ok && strings.HasPrefix(path, "k8s.io/") {
			p, err := read(dir)
			if err != nil {
				fmt.Fprintln(os.Stderr, "metricslist:", err)
				os.Exit(1)
			}
			all[path] = p
		}
	}
	lines := map[string]bool{}
	for path, p := range all {
		if path == library {
			continue
		}
		for _, f := range p.files {
			r := reader{all, p, f}
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if line, known, err := r.metric(call); err != nil {
					fmt.Fprintf(os.Stderr, "metricslist: %s: %v\n", path, err)
				} else if known {
					lines[line] = true
				}
				return true
			})
		}
	}
	for _, l := range slices.Sorted(maps.Keys(lines)) {
		fmt.Println(l)
	}
}

// read parses the Go files of a directory that a build for Linux takes.
func read(dir string) (*source, error) {
	p := &source{values: map[string]ast.Expr{}, fileOf: map[string]*ast.File{}}
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		ours, err := build.Default.MatchFile(dir, filepath.Base(name))
		if err != nil {
			return nil, err
		}
		if !ours || strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, f)
		ast.Inspect(f, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && len(v.Names) == len(v.Values) {
				for i, id := range v.Names {
					p.values[id.Name], p.fileOf[id.Name] = v.Values[i], f
				}
			}
			if a, ok := n.(*ast.AssignStmt); ok && a.Tok == token.DEFINE && len(a.Lhs) == len(a.Rhs) {
				for i, e := range a.Lhs {
					if id, ok := e.(*ast.Ident); ok && p.values[id.Name] == nil {
						p.values[id.Name], p.fileOf[id.Name] = a.Rhs[i], f
					}
				}
			}
			return true
		})
	}
	return p, nil
}

// reader reads expressions of one file.
type reader struct {
	all  map[string]*source
	p    *source
	file *ast.File
}

// imported is the path of the package that a name of the file stands for.
func (r reader) imported(name string) string {
	for _, i := range r.file.Imports {
		path, _ := strconv.Unquote(i.Path.Value) // the parser took it
		if i.Name != nil && i.Name.Name == name || i.Name == nil && filepath.Base(path) == name {
			return path
		}
	}
	return ""
}

// kinds are the types of metrics by their constructors.
var kinds = map[string]string{
	"NewCounter": "counter", "NewCounterVec": "counter", "NewGauge": "gauge", "NewGaugeVec": "gauge",
	"NewGaugeFunc": "gauge",
	"NewHistogram": "histogram", "NewHistogramVec": "histogram", "NewSummary": "summary", "NewSummaryVec": "summary",
	"NewTimingHistogram": "histogram", "NewTimingHistogramVec": "histogram", "NewDesc": "custom",
	"NewTimingRatioHistogramVec": "histogram",
}

// metric reads a call of a constructor.
func (r reader) metric(call *ast.CallExpr) (line string, known bool, err error) {
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || kinds[s.Sel.Name] == "" || len(call.Args) == 0 {
		return "", false, nil
	}
	of, ok := s.X.(*ast.Ident)
	if path := ""; !ok {
		return "", false, nil
	} else if path = r.imported(of.Name); path != library && !strings.Contains(path, "prometheus") {
		return "", false, nil
	}
	kind := kinds[s.Sel.Name]
	if kind == "custom" {
		name, ok := r.text(call.Args[0], 0)
		if !ok || len(call.Args) < 3 {
			return "", false, fmt.Errorf("a description's name cannot be read")
		}
		labels, _ := r.list(call.Args[2])
		return join(kind, name, labels), true, nil
	}
	name, ok := r.options(call.Args[0])
	if !ok {
		return "", false, fmt.Errorf("options of a %s cannot be read", s.Sel.Name)
	}
	var labels []string
	if strings.HasSuffix(s.Sel.Name, "Vec") && len(call.Args) > 1 {
		labels, _ = r.list(call.Args[1])
	}
	return join(kind, name, labels), true, nil
}

func join(kind, name string, labels []string) string {
	slices.Sort(labels)
	return strings.Join(append([]string{kind, name}, labels...), " ")
}

// options is the full name that a literal of options gives.
func (r reader) options(e ast.Expr) (string, bool) {
	if u, ok := e.(*ast.UnaryExpr); ok {
		e = u.X
	}
	lit, ok := e.(*ast.CompositeLit)
	if !ok {
		return "", false
	}
	parts := map[string]string{}
	for _, x := range lit.Elts {
		kv, ok := x.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		if key, ok := kv.Key.(*ast.Ident); ok && (key.Name == "Namespace" || key.Name == "Subsystem" ||
			key.Name == "Name") {
			if parts[key.Name], ok = r.text(kv.Value, 0); !ok {
				return "", false
			}
		}
	}
	return full(parts["Namespace"], parts["Subsystem"], parts["Name"]), parts["Name"] != ""
}

func full(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "_")
}

// text is the value of an expression of constants.
func (r reader) text(e ast.Expr, depth int) (string, bool) {
	if depth > 8 {
		return "", false
	}
	switch x := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(x.Value)
		return s, err == nil
	case *ast.Ident:
		if v := r.p.values[x.Name]; v != nil {
			return reader{r.all, r.p, r.p.fileOf[x.Name]}.text(v, depth+1)
		}
	case *ast.SelectorExpr:
		if of, ok := x.X.(*ast.Ident); ok {
			if p := r.all[r.imported(of.Name)]; p != nil && p.values[x.Sel.Name] != nil {
				return reader{r.all, p, p.fileOf[x.Sel.Name]}.text(p.values[x.Sel.Name], depth+1)
			}
		}
	case *ast.BinaryExpr:
		a, aok := r.text(x.X, depth+1)
		b, bok := r.text(x.Y, depth+1)
		return a + b, aok && bok
	case *ast.CallExpr:
		if s, ok := x.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "BuildFQName" {
			var parts []string
			for _, a := range x.Args {
				p, ok := r.text(a, depth+1)
				if !ok {
					return "", false
				}
				parts = append(parts, p)
			}
			return full(parts...), true
		}
		if len(x.Args) == 1 {
			return r.text(x.Args[0], depth+1) // a conversion
		}
	}
	return "", false
}

// list is a list of labels; what cannot be read in it is "?".
func (r reader) list(e ast.Expr) ([]string, bool) {
	switch x := e.(type) {
	case *ast.Ident:
		if v := r.p.values[x.Name]; v != nil {
			return reader{r.all, r.p, r.p.fileOf[x.Name]}.list(v)
		}
		return nil, x.Name == "nil"
	case *ast.CompositeLit:
		var out []string
		for _, l := range x.Elts {
			s, ok := r.text(l, 0)
			if !ok {
				s = "?"
			}
			out = append(out, s)
		}
		return out, true
	}
	return []string{"?"}, false
}
