package mutants

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Mutations of one package that are compiled together have the outcomes that they have alone, and
// only those that change bodies of functions, and compile, are compiled together.
func TestTogetherAsAlone(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.org/m\n\ngo 1.26\n",
		"p/p.go": `package p

import "strings"

const most = 3

type number int

func (number) double(_ int, n int) int { return 2 * n }

func (n *number) set(to number) { *n = to }

func sum(_ string, ns ...int) (total int) {
	for _, n := range ns {
		total += n
	}
	return total
}

func last[T any](ts []T) T { return ts[len(ts)-1] }

func upper(s string) string { return strings.ToUpper(s) }

func count(n int) int {
	if n == 0 {
		return 0
	}
	return 1 + count(n-1)
}

func unseen() int { return 1 }
`,
		"p/p_test.go": `package p

import "testing"

func TestAll(t *testing.T) {
	var n number
	n.set(4)
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"most", most, 3},
		{"double", n.double(0, 4), 8},
		{"set", n, number(4)},
		{"sum", sum("", 1, 2, 3), 6},
		{"last", last([]string{"a", "b"}), "b"},
		{"upper", upper("a"), "A"},
		{"count", count(3), 3},
		{"unseen", unseen() > 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.got != c.want {
				t.Errorf("%s: got %v, want %v", c.name, c.got, c.want)
			}
		})
	}
}
`,
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mutation := func(clause, find, put, test, says string) Mutation {
		return Mutation{Row: "ABC-01", Clause: clause, Edit: Edit{File: "p/p.go", Find: find, Put: put},
			Tests: []Test{{In: "p", Run: "TestAll/" + test, Says: says}}}
	}
	ms := []Mutation{
		mutation("constant", "most = 3", "most = 4", "most", "got 4, want 3"),
		mutation("no names", "2 * n", "3 * n", "double", "got 12, want 8"),
		mutation("method", "*n = to", "*n = to + 1", "set", "got 5, want 4"),
		mutation("variadic", "total += n", "total -= n", "sum", "got -6, want 6"),
		mutation("named result", "return total", "return 1", "sum", "got 7, want 6"),
		mutation("generic", "ts[len(ts)-1]", "ts[0]", "last", "got a, want b"),
		mutation("import", "strings.ToUpper(s)", "s", "upper", "got a, want A"),
		mutation("recursive", "1 + count(n-1)", "2 + count(n-1)", "count", "got 6, want 3"),
		mutation("the same function", "n == 0", "n == 1", "count", "got 2, want 3"),
		mutation("survives", "return 1 }", "return 2 }", "unseen", "got"),
		mutation("unused variable", "return 1 }", "x := 1; return 2 }", "unseen", "got"),
		mutation("panics", "{ return 1 }", `{ panic("no") }`, "unseen", "got"),
	}
	r := Runner{Root: root}
	run := func(all func(done func(Mutation, Result)) error) map[string]Outcome {
		out := map[string]Outcome{}
		if err := all(func(m Mutation, res Result) { out[m.Clause] = res.Outcome }); err != nil {
			t.Error(err)
		}
		return out
	}
	together := run(func(done func(Mutation, Result)) error { return r.RunAll(t.Context(), ms, 2, done) })
	alone := run(func(done func(Mutation, Result)) error { return r.RunAlone(t.Context(), ms, 2, done) })
	if !maps.Equal(together, alone) {
		t.Errorf("outcomes of mutations compiled together: got %v, want those of each alone: %v", together, alone)
	}
	for clause, want := range map[string]Outcome{"named result": WrongMessage, "import": NotCompiled,
		"survives": Survived, "unused variable": NotCompiled, "panics": Panicked, "generic": Killed} {
		if got := together[clause]; got != want {
			t.Errorf("%s: got %q, want %q", clause, got, want)
		}
	}
	_, in, err := switched(root, ms)
	if err != nil {
		t.Fatal(err)
	}
	var clauses []string
	for _, m := range in {
		clauses = append(clauses, m.Clause)
	}
	slices.Sort(clauses)
	want := []string{"generic", "method", "named result", "no names", "panics", "recursive", "survives",
		"the same function", "unused variable", "variadic"}
	if !slices.Equal(clauses, want) {
		t.Errorf("mutations that are put into one text: got %q, want %q", clauses, want)
	}
	var killed []string
	failed, left, err := r.runTogether(t.Context(), ms, func(m Mutation, _ Result) {
		killed = append(killed, m.Clause)
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"no names", "method", "variadic", "generic", "recursive", "the same function"}; !slices.Equal(
		killed, want) {
		t.Errorf("killed by one binary: got %q, want %q", killed, want)
	}
	if len(failed) != 3 || len(left) != 3 {
		t.Errorf("of the others: got %d not killed, %d that are not compiled together, want 3, 3", len(failed),
			len(left))
	}
}
