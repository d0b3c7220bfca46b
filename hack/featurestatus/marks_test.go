package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func writeTest(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a_test.go"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

const marked = `package a

// row: ABC-01
func TestWhole(t *testing.T) {
	for _, c := range []struct{ name string }{
		// row: ABC-02, ABC-03
		{"one case"},
		{name: "another"}, // row: ABC-04
	} {
		_ = c
	}
	t.Run("by name", func(t *testing.T) {
		// row: ABC-05
	})
	t.Run("helped", helper)
}

// row: ABC-06
func helper(t *testing.T) {}

var table = map[string]int{
	"first": 1, // row: ABC-07
}

func TestTable(t *testing.T) { _ = table }
`

func TestMarksBelongToTheirTestAndCase(t *testing.T) {
	marks, err := readMarks(writeTest(t, marked))
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{
		"ABC-01": "TestWhole//", "ABC-02": "TestWhole//one case", "ABC-03": "TestWhole//one case",
		"ABC-04": "TestWhole//another", "ABC-05": "TestWhole//by name", "ABC-06": "TestWhole//helped",
		"ABC-07": "TestTable//first",
	} {
		var got []string
		for _, m := range marks[id] {
			got = append(got, m.test+"//"+m.sub)
		}
		if want := strings.TrimSuffix(want, "//"); !slices.Equal(got, []string{want}) &&
			!slices.Equal(got, []string{want + "//"}) {
			t.Errorf("%s: got %q, want %q", id, got, want)
		}
	}
}

func TestMarksOutsideOfTestsAreRefused(t *testing.T) {
	for _, text := range []string{
		"package a\n\n// row: ABC-01\nfunc BenchmarkX(b *testing.B) {}\n",
		"package a\n\n// row: ABC-01\nfunc helper(t *testing.T) {}\n",
		"package a\n\n// row: ABC-01\ntype x struct{}\n",
		"package a\n\nfunc TestX(t *testing.T) {}\n\n// row: ABC-01\n",
	} {
		if _, err := readMarks(writeTest(t, text)); err == nil || !strings.Contains(err.Error(), "is in no test") {
			t.Errorf("%q: got %v, want an error that the mark is in no test", text, err)
		}
	}
}

func TestStates(t *testing.T) {
	results := ran{"p": {"TestA": "pass", "TestA/one_case": "skip", "TestA/other": "pass", "TestB": "fail",
		"TestC": "skip"}}
	killed, open := mutation{fresh: true}, mutation{}
	for _, c := range []struct {
		name      string
		marks     []mark
		mutations []mutation
		want      string
	}{
		{"no mark", nil, nil, notYet},
		{"no result", []mark{{"p", "TestD", ""}}, nil, notYet},
		{"skipped", []mark{{"p", "TestC", ""}}, nil, notYet},
		{"skipped case", []mark{{"p", "TestA", "one case"}}, nil, notYet},
		{"passed case", []mark{{"p", "TestA", "other"}}, nil, tested},
		{"case without a result of its own", []mark{{"p", "TestA", "unnamed"}}, nil, tested},
		{"failed beside a pass", []mark{{"p", "TestA", ""}, {"p", "TestB", ""}}, []mutation{killed}, broken},
		{"all mutations killed", []mark{{"p", "TestA", ""}}, []mutation{killed, killed}, proven},
		{"one mutation open", []mark{{"p", "TestA", ""}}, []mutation{killed, open}, tested},
		{"a reason instead of a mutation", []mark{{"p", "TestA", ""}}, []mutation{{none: "why"}}, tested},
		{"killed, but no test passed", []mark{{"p", "TestC", ""}}, []mutation{killed}, notYet},
	} {
		if got := statusOf(row{id: "ABC-01"}, c.marks, results, c.mutations).state; got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

func TestWithoutResultsNothingCounts(t *testing.T) {
	if _, err := readResults(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(),
		"make test") {
		t.Errorf("got %v, want an error that says to run make test", err)
	}
}

// Every mark of this tree stands in a test and names a row.
func TestMarksOfThisTree(t *testing.T) {
	rows, err := readRows("../../test/features/rows.md")
	if err != nil {
		t.Fatal(err)
	}
	marks, err := readMarks("../..")
	if err != nil {
		t.Error(err)
	}
	if err := known(rows, marks); err != nil {
		t.Error(err)
	}
}
