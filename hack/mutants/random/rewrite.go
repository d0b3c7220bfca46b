package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/types"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// helperFile is the file that a mutated package gets besides.
const helperFile = "gantry_mutant.go"

const helper = `package %s

import (
	mutantOS "os"
	mutantStrconv "strconv"
	mutantStrings "strings"
	mutantAtomic "sync/atomic"
)

var mutantActive = func() int64 {
	if mutantOS.Getenv("GANTRY_MUTANT_REACHED") != "" {
		return -1
	}
	path, n, _ := mutantStrings.Cut(mutantOS.Getenv("GANTRY_MUTANT"), "#")
	if path != %q {
		return 0
	}
	id, _ := mutantStrconv.ParseInt(n, 10, 64)
	return id
}()

var mutantSeen [%d]mutantAtomic.Bool

func mutantOn(id int64) bool {
	if mutantActive >= 0 {
		return id == mutantActive
	}
	if !mutantSeen[id].Swap(true) {
		f, err := mutantOS.OpenFile(mutantOS.Getenv("GANTRY_MUTANT_REACHED"),
			mutantOS.O_APPEND|mutantOS.O_CREATE|mutantOS.O_WRONLY, 0o666)
		if err == nil {
			f.WriteString(%q + "#" + mutantStrconv.FormatInt(id, 10) + "\n")
			f.Close()
		}
	}
	return false
}

func mutantPick[T any](on bool, x, y T) T {
	if on {
		return y
	}
	return x
}

func mutantNil(on bool, err error) error {
	if on {
		return nil
	}
	return err
}

func mutantZero[T any](on bool, x T) T {
	if on {
		var zero T
		return zero
	}
	return x
}

func mutantDrop[S any](on bool, before, after S) S {
	if on {
		return before
	}
	return after
}
`

// helperText is the helper file of a package whose largest id is most.
func (p *pkg) helperText(most int) string {
	return fmt.Sprintf(helper, p.types.Name(), p.Path, most+1, p.Path)
}

// rewrite is the text of a file with mutations, each behind its condition. Lines stay where they
// are, but for comparisons over several lines.
func rewrite(text []byte, mutations []*mutation) string {
	list := append([]*mutation{}, mutations...)
	sort.SliceStable(list, func(i, j int) bool {
		if list[i].from != list[j].from {
			return list[i].from < list[j].from
		}
		if list[i].to != list[j].to {
			return list[i].to > list[j].to
		}
		return wraps(list[i]) && !wraps(list[j])
	})
	return render(text, list, 0, len(text))
}

// wraps tells whether a mutation is put around the text that it replaces as a whole, so that
// another of the same text can be inside it.
func wraps(m *mutation) bool { return m.Kind != "bound moved" && m.Kind != "&& and || exchanged" }

func render(text []byte, list []*mutation, from, to int) string {
	var b strings.Builder
	at := from
	for i := 0; i < len(list); i++ {
		m := list[i]
		if m.from < at || m.to > to {
			continue
		}
		inside := list[i+1:]
		b.Write(text[at:m.from])
		b.WriteString(m.build(fmt.Sprintf("mutantOn(%d)", m.id),
			func(f, t int) string { return render(text, inside, f, t) }))
		at = m.to
	}
	b.Write(text[at:to])
	return b.String()
}

// texts is the package's files with the mutations, by name, and the helper.
func (p *pkg) texts(mutations []*mutation) map[string]string {
	byFile := map[string][]*mutation{}
	most := 0
	for _, m := range mutations {
		byFile[m.File] = append(byFile[m.File], m)
		most = max(most, m.id)
	}
	out := map[string]string{helperFile: p.helperText(most)}
	for _, f := range p.files {
		if len(byFile[f.name]) > 0 {
			out[f.name] = rewrite(f.text, byFile[f.name])
		}
	}
	return out
}

// compiling is those of the mutations whose package compiles with them. The rest is found by the
// place of the errors.
func (p *pkg) compiling(all []*mutation) ([]*mutation, error) {
	left := all
	for range 20 {
		bad, err := p.rejected(left)
		if err != nil || len(bad) == 0 {
			return left, err
		}
		var rest []*mutation
		for _, m := range left {
			if !bad[m.id] {
				rest = append(rest, m)
			}
		}
		left = rest
	}
	return nil, fmt.Errorf("%s does not compile with any mutations", p.Path)
}

// rejected type-checks the package with the mutations and returns the ids of those next to an
// error.
func (p *pkg) rejected(mutations []*mutation) (map[int]bool, error) {
	texts := p.texts(mutations)
	var files []*ast.File
	for _, f := range p.files {
		if _, ok := texts[f.name]; !ok {
			files = append(files, f.file)
		}
	}
	changed := map[string]*ast.File{}
	for name, text := range texts {
		full := filepath.Join(p.Dir, "mutated-"+name)
		f, err := parser.ParseFile(p.fset, full, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Path, err)
		}
		files = append(files, f)
		changed[full] = f
	}
	bad := map[int]bool{}
	var lost error
	conf := types.Config{Importer: p.imports, Error: func(err error) {
		var e types.Error
		if !errors.As(err, &e) {
			lost = err
			return
		}
		ids := p.near(changed[p.fset.Position(e.Pos).Filename], e)
		if len(ids) == 0 {
			lost = err
		}
		for _, id := range ids {
			bad[id] = true
		}
	}}
	_, _ = conf.Check(p.Path, p.fset, files, nil)
	if len(bad) == 0 && lost != nil {
		return nil, fmt.Errorf("%s with mutations: %w", p.Path, lost)
	}
	return bad, nil
}

// near is the ids in the smallest piece of syntax around an error that has any.
func (p *pkg) near(f *ast.File, e types.Error) []int {
	if f == nil {
		return nil
	}
	var around []ast.Node
	ast.Inspect(f, func(n ast.Node) bool {
		if n == nil || n.Pos() > e.Pos || n.End() < e.Pos {
			return false
		}
		around = append(around, n)
		return true
	})
	for i := len(around) - 1; i > 0; i-- {
		if ids := idsIn(around[i]); len(ids) > 0 {
			return ids
		}
	}
	return nil
}

func idsIn(n ast.Node) []int {
	var out []int
	ast.Inspect(n, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if id, ok := call.Fun.(*ast.Ident); !ok || id.Name != "mutantOn" {
			return true
		}
		if n, err := strconv.Atoi(call.Args[0].(*ast.BasicLit).Value); err == nil {
			out = append(out, n)
		}
		return true
	})
	return out
}
