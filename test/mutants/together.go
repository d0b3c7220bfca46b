package mutants

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// switchVariable is the variable of the environment whose number says which mutation of a test
// binary is on.
const switchVariable = "GANTRY_MUTANT"

// groups parts mutations into those that one test binary can hold and those that run alone. The
// mutations of a group change functions of one package and name the same packages of tests.
func groups(ms []Mutation) (together [][]Mutation, alone []Mutation) {
	byKey := map[string][]Mutation{}
	var keys []string
	for _, m := range ms {
		if m.Containers {
			alone = append(alone, m)
			continue
		}
		key := m.group()
		if byKey[key] == nil {
			keys = append(keys, key)
		}
		byKey[key] = append(byKey[key], m)
	}
	for _, k := range keys {
		if g := byKey[k]; len(g) > 1 {
			together = append(together, g)
		} else {
			alone = append(alone, g...)
		}
	}
	slices.SortStableFunc(together, func(a, b []Mutation) int { return cmp.Compare(len(b), len(a)) })
	return together, alone
}

// group names the mutations that one test binary can hold together: those of one package whose
// tests are in the same packages. A mutation of several packages is a group of its own.
func (m Mutation) group() string {
	for _, e := range m.Also {
		if path.Dir(e.File) != path.Dir(m.File) {
			return m.ID()
		}
	}
	return path.Dir(m.File) + " " + strings.Join(packages(m), " ")
}

// packages are the directories of a mutation's tests, each once.
func packages(m Mutation) []string {
	var out []string
	for _, t := range m.Tests {
		if !slices.Contains(out, t.In) {
			out = append(out, t.In)
		}
	}
	return out
}

// switched returns the texts of files, by their path from root, in which the mutations of one
// package are all there and none is on, and which of them are there, by the number that turns each
// on. Every function that a mutation changes begins with a question for that number, and calls the
// changed copy of itself then. Mutations that change anything but bodies of functions are left out,
// and those that leave an import unused, which compile in no file of their own.
func switched(root string, ms []Mutation) (texts map[string]string, in map[int]Mutation, err error) {
	originals := map[string]*source{}
	in = map[int]Mutation{}
	for i, m := range ms {
		number := i + 1
		changed, err := m.Changed(root)
		if err != nil {
			return nil, nil, err
		}
		copies := map[string][]function{}
		fits := true
		for file, text := range changed {
			if originals[file] == nil {
				raw, err := os.ReadFile(filepath.Join(root, file))
				if err != nil {
					return nil, nil, err
				}
				if originals[file], err = parse(file, string(raw)); err != nil {
					fits = false
					break
				}
			}
			var ok bool
			if copies[file], ok = originals[file].changedFunctions(text, number); !ok {
				fits = false
				break
			}
		}
		if !fits {
			continue
		}
		in[number] = m
		for file, functions := range copies {
			originals[file].add(functions, number)
		}
	}
	texts = map[string]string{}
	for file, s := range originals {
		if s == nil || len(s.inserts) == 0 {
			continue
		}
		texts[file] = s.text()
		texts[path.Join(path.Dir(file), "mutant_switch.go")] = "package " + s.ast.Name.Name + `

import (
	"os"
	"strconv"
)

var mutantOn, _ = strconv.Atoi(os.Getenv("` + switchVariable + `"))
`
	}
	return texts, in, nil
}

// source is a Go file to which copies of functions are added.
type source struct {
	src     string
	ast     *ast.File
	base    int
	inserts map[int]string // offset: what stands there instead of, or before, what follows
	cuts    map[int]int    // offset: so many bytes are left out
	tail    strings.Builder
}

// function is the changed copy of one of a file's declarations.
type function struct {
	index int
	text  string
}

func parse(name, src string) (*source, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, 0)
	if err != nil {
		return nil, err
	}
	return &source{src: src, ast: f, base: fset.File(f.FileStart).Base(), inserts: map[int]string{},
		cuts: map[int]int{}}, nil
}

func (s *source) at(p token.Pos) int { return int(p) - s.base }

func (s *source) slice(n ast.Node) string { return s.src[s.at(n.Pos()):s.at(n.End())] }

// changedFunctions returns the functions whose bodies differ in text, renamed by number, and false
// when anything else differs.
func (s *source) changedFunctions(text string, number int) ([]function, bool) {
	other, err := parse("", text)
	if err != nil || len(other.ast.Decls) != len(s.ast.Decls) || s.losesImport(other) {
		return nil, false
	}
	var out []function
	for i, d := range s.ast.Decls {
		was, now := s.slice(d), other.slice(other.ast.Decls[i])
		if was == now {
			continue
		}
		f, ok := d.(*ast.FuncDecl)
		g, alsoOK := other.ast.Decls[i].(*ast.FuncDecl)
		if !ok || !alsoOK || f.Body == nil || g.Body == nil || s.head(f) != other.head(g) {
			return nil, false
		}
		head := other.src[other.at(g.Type.Func):other.at(g.Name.Pos())] + copyName(f, number)
		rest := other.src[other.at(g.Name.End()):other.at(g.End())]
		if hasFunctionCopy(g) {
			head = "func " + copyName(f, number) + "(" + other.slice(g.Recv.List[0]) + ", "
			rest = other.src[other.at(g.Type.Params.Opening)+1 : other.at(g.End())]
		}
		out = append(out, function{index: i, text: head + rest})
	}
	return out, len(out) > 0
}

// head is a function's text before its body.
func (s *source) head(f *ast.FuncDecl) string { return s.src[s.at(f.Type.Func):s.at(f.Body.Lbrace)] }

func copyName(f *ast.FuncDecl, number int) string {
	return strings.Trim(f.Name.Name, "_") + "Mutant" + strconv.Itoa(number)
}

// hasFunctionCopy tells whether a method's copy is a function, with the receiver as its first
// parameter: a method more would change what the package exports, and with that all packages above
// it would have to be compiled again.
func hasFunctionCopy(f *ast.FuncDecl) bool {
	if f.Recv == nil || len(f.Recv.List[0].Names) == 0 {
		return false
	}
	if params := f.Type.Params.List; len(params) > 0 && len(params[0].Names) == 0 {
		return false
	}
	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	_, plain := t.(*ast.Ident)
	return plain
}

// losesImport tells whether a name of another file that s uses as in name.X is not used in changed.
func (s *source) losesImport(changed *source) bool {
	used := func(f *ast.File) map[string]bool {
		unresolved := map[*ast.Ident]bool{}
		for _, u := range f.Unresolved {
			unresolved[u] = true
		}
		names := map[string]bool{}
		ast.Inspect(f, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && unresolved[x] {
					names[x.Name] = true
				}
			}
			return true
		})
		return names
	}
	now := used(changed.ast)
	for name := range used(s.ast) {
		if !now[name] {
			return true
		}
	}
	return false
}

// add puts in the copies of functions and the questions that lead to them.
func (s *source) add(functions []function, number int) {
	for _, fn := range functions {
		f := s.ast.Decls[fn.index].(*ast.FuncDecl)
		arguments := s.name(f.Type.Params, "mutantArgument")
		call := copyName(f, number)
		switch {
		case hasFunctionCopy(f):
			arguments = append(s.name(f.Recv, "mutantReceiver"), arguments...)
		case f.Recv != nil:
			call = s.name(f.Recv, "mutantReceiver")[0] + "." + call
		}
		if p := f.Type.TypeParams; p != nil {
			call += "[" + strings.Join(s.name(p, "mutantType"), ", ") + "]"
		}
		if n := len(f.Type.Params.List); n > 0 {
			if _, variadic := f.Type.Params.List[n-1].Type.(*ast.Ellipsis); variadic {
				arguments[len(arguments)-1] += "..."
			}
		}
		call += "(" + strings.Join(arguments, ", ") + ")"
		if f.Type.Results != nil && len(f.Type.Results.List) > 0 {
			call = "return " + call
		} else {
			call += "; return"
		}
		s.inserts[s.at(f.Body.Lbrace)+1] += fmt.Sprintf(" if mutantOn == %d { %s };", number, call)
		fmt.Fprintf(&s.tail, "\n//line mutant_%d.go:1\n%s\n", number, fn.text)
	}
}

// name returns the names of all fields in a list, and gives names to those that have none.
func (s *source) name(list *ast.FieldList, prefix string) []string {
	var out []string
	for _, field := range list.List {
		if len(field.Names) == 0 {
			name := prefix + strconv.Itoa(len(out))
			s.inserts[s.at(field.Type.Pos())] = name + " "
			out = append(out, name)
		}
		for _, n := range field.Names {
			name := n.Name
			if name == "_" {
				name = prefix + strconv.Itoa(len(out))
				s.inserts[s.at(n.Pos())], s.cuts[s.at(n.Pos())] = name, 1
			}
			out = append(out, name)
		}
	}
	return out
}

// text is the file with all that was put in.
func (s *source) text() string {
	var offsets []int
	for at := range s.inserts {
		offsets = append(offsets, at)
	}
	slices.Sort(offsets)
	var b strings.Builder
	last := 0
	for _, at := range offsets {
		b.WriteString(s.src[last:at] + s.inserts[at])
		last = at + s.cuts[at]
	}
	return b.String() + s.src[last:] + "\n" + s.tail.String()
}

var mutantLine = regexp.MustCompile(`mutant_(\d+)\.go:\d+`)

// runTogether compiles a group's test binaries once and runs the tests of each mutation with that
// one on. It calls done for those that were killed, and returns the others with their results, and
// those that cannot be compiled together.
func (r Runner) runTogether(ctx context.Context, ms []Mutation, done func(Mutation, Result)) (
	failed []unsettled, alone []Mutation, err error) {
	start := time.Now()
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return nil, ms, err
	}
	defer os.RemoveAll(dir)
	built := map[string]string{}
	var in map[int]Mutation
	left := slices.Clone(ms)
	for len(left) > 1 {
		var texts map[string]string
		if texts, in, err = switched(r.Root, left); err != nil {
			return nil, ms, err
		}
		for _, m := range missing(left, in) {
			alone, left = append(alone, m), without(left, m)
		}
		if len(in) < 2 {
			break
		}
		said, ok, err := r.compile(ctx, dir, texts, packages(left[0]), built)
		if err != nil {
			return nil, ms, err
		}
		if ok {
			break
		}
		culprits := mutantLine.FindAllStringSubmatch(said, -1)
		if len(culprits) == 0 {
			return nil, ms, nil
		}
		seen := map[int]bool{}
		for _, c := range culprits {
			n, _ := strconv.Atoi(c[1])
			if m, ok := in[n]; ok && !seen[n] {
				alone, left, seen[n] = append(alone, m), without(left, m), true
			}
		}
		clear(in)
	}
	if len(in) < 2 {
		return nil, ms, nil
	}
	share := time.Since(start) / time.Duration(len(in))
	for n := 1; n <= len(ms); n++ {
		m, ok := in[n]
		if !ok {
			continue
		}
		res, err := r.runSwitched(ctx, built, m, n)
		if err != nil {
			return failed, alone, err
		}
		res.Seconds += float64(share.Milliseconds()) / 1000
		if res.Outcome == Killed {
			done(m, res)
		} else {
			failed = append(failed, unsettled{m, res})
		}
	}
	return failed, alone, nil
}

// unsettled is a mutation that was not killed beside others, and may be alone.
type unsettled struct {
	Mutation
	result Result
}

func missing(ms []Mutation, in map[int]Mutation) []Mutation {
	var out []Mutation
	for i, m := range ms {
		if _, ok := in[i+1]; !ok {
			out = append(out, m)
		}
	}
	return out
}

func without(ms []Mutation, m Mutation) []Mutation {
	return slices.DeleteFunc(slices.Clone(ms), func(o Mutation) bool { return o.ID() == m.ID() })
}

// compile makes the test binary of each package with texts in place of files.
func (r Runner) compile(ctx context.Context, dir string, texts map[string]string, in []string,
	built map[string]string) (said string, ok bool, err error) {
	overlay, err := writeOverlay(r.Root, dir, texts)
	if err != nil {
		return "", false, err
	}
	for i, p := range in {
		built[p] = filepath.Join(dir, fmt.Sprintf("%d.test", i))
		said, err := r.testBinary(ctx, overlay, built[p], p)
		if err != nil {
			return said, false, ctx.Err()
		}
	}
	return "", true, nil
}

func (r Runner) runSwitched(ctx context.Context, built map[string]string, m Mutation, number int) (Result, error) {
	start := time.Now()
	print, err := Fingerprint(r.Root, m)
	if err != nil {
		return Result{}, err
	}
	out := Result{ID: m.ID(), Fingerprint: print}
	for _, t := range m.Tests {
		said, err := r.test(ctx, built[t.In], m, t, "GANTRY_NO_CONTAINERS=1",
			switchVariable+"="+strconv.Itoa(number))
		if err := errors.Join(err, ctx.Err()); err != nil {
			return Result{}, err
		}
		out.Outcome, out.Output = Decide(said, t)
		if out.Outcome != Killed {
			out.Test, out.Output = t.In+"."+t.Run, tail(out.Output)
			break
		}
	}
	out.Seconds = float64(time.Since(start).Milliseconds()) / 1000
	return out, nil
}

// RunAll runs mutations, so many processes at once as parallel says, and calls done for each, one
// call at a time. Those of one package are compiled together; what is not killed then is run alone
// before it is done. It returns when all have ended; the error joins those of single mutations.
func (r Runner) RunAll(ctx context.Context, ms []Mutation, parallel int, done func(Mutation, Result)) error {
	together, alone := groups(ms)
	var mu sync.Mutex
	locked := func(m Mutation, res Result) {
		mu.Lock()
		defer mu.Unlock()
		done(m, res)
	}
	var all []unsettled
	err := each(ctx, together, parallel, func(g []Mutation) error {
		failed, left, err := r.runTogether(ctx, g, locked)
		mu.Lock()
		defer mu.Unlock()
		all, alone = append(all, failed...), append(alone, left...)
		return err
	})
	if ctx.Err() != nil {
		for _, u := range all {
			done(u.Mutation, u.result)
		}
		return err
	}
	for _, u := range all {
		alone = append(alone, u.Mutation)
	}
	return errors.Join(err, r.RunAlone(ctx, alone, parallel, done))
}
