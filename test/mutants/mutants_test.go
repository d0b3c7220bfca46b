package mutants

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func tree(t *testing.T) (string, []Mutation) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	all, err := Read("rows")
	if err != nil {
		t.Fatal(err)
	}
	return root, all
}

// Every mutation still has its place in the product, and every test that it names is there.
func TestEveryMutationHasItsPlace(t *testing.T) {
	root, all := tree(t)
	for _, m := range all {
		if m.None != "" {
			continue
		}
		if _, err := m.Changed(root); err != nil {
			t.Error(err)
		}
		for _, named := range m.Tests {
			if _, err := declares(root, named); err != nil {
				t.Errorf("%s: got %v, want a file that declares the test", m.ID(), err)
			}
		}
	}
}

// Every row of test/features/rows.md has a mutation, or an entry that says why it has none.
func TestEveryRowHasAMutation(t *testing.T) {
	root, all := tree(t)
	raw, err := os.ReadFile(filepath.Join(root, "test/features/rows.md"))
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for _, m := range all {
		has[m.Row] = true
	}
	rows := rowsOf(string(raw))
	if len(rows) == 0 {
		t.Fatal("test/features/rows.md: got no rows")
	}
	for _, row := range rows {
		if !has[row] {
			t.Errorf("%s: got no entry in test/mutants/rows, want a mutation or a reason why there is none", row)
		}
		delete(has, row)
	}
	for row := range has {
		t.Errorf("%s: got an entry in test/mutants/rows, want only rows of test/features/rows.md", row)
	}
}

// rowsOf are the rows of a page of rows: those below the titles of its areas.
func rowsOf(page string) []string {
	area := regexp.MustCompile(`^# \d`)
	row := regexp.MustCompile(`^\| ([A-Z]+-\d+) \|`)
	var out []string
	in := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "# ") {
			in = area.MatchString(line)
		}
		if m := row.FindStringSubmatch(line); m != nil && in {
			out = append(out, m[1])
		}
	}
	return out
}

// A fixed sample of the mutations that were killed once is killed, and those whose files are not
// what they were then, as many of them as there is time for.
func TestSampleIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: compiles packages again for each mutation")
	}
	root, all := tree(t)
	results, err := ReadResults("results.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	const fixed, most = 30, 40
	var killed []Mutation
	for _, m := range Choose(all, Choice{}) {
		if results[m.ID()].Outcome == Killed {
			killed = append(killed, m)
		}
	}
	chosen := Sample(killed, fixed)
	changed, err := Stale(root, killed, results, false)
	if err != nil {
		t.Fatal(err)
	}
	in := map[string]bool{}
	for _, m := range chosen {
		in[m.ID()] = true
	}
	left := 0
	for _, m := range Sample(changed, len(changed)) {
		switch {
		case in[m.ID()]:
		case len(chosen) < most:
			chosen = append(chosen, m)
		default:
			left++
		}
	}
	t.Logf("%d of %d mutations are run; of those that were killed once, %d more depend on files that changed; %d have "+
		"not been killed yet: make mutants", len(chosen), len(all), left, len(Choose(all, Choice{}))-len(killed))
	r := Runner{Root: root}
	err = r.RunAll(context.Background(), chosen, 2, func(m Mutation, res Result) {
		if res.Outcome != Killed {
			t.Errorf("%s: got %s in %s, want %s:\n%s", m.ID(), res.Outcome, res.Test, Killed, res.Output)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// A sample has a mutation of every area, from few groups; it is the same in any order, and the
// whole is all.
func TestSampleIsOfEveryAreaInFewGroups(t *testing.T) {
	mutation := func(row, dir string) Mutation {
		return Mutation{Row: row, Edit: Edit{File: dir + "/a.go", Find: "x", Put: "y"},
			Tests: []Test{{In: dir, Run: "TestA", Says: "x"}}}
	}
	all := []Mutation{mutation("AAA-01", "a"), mutation("BBB-01", "b"), mutation("CCC-01", "c"),
		mutation("AAA-02", "all"), mutation("BBB-02", "all"), mutation("CCC-02", "all"), mutation("CCC-03", "all"),
		mutation("DDD-01", "d"), mutation("DDD-02", "d"), {Row: "EEE-01", None: "none"},
		{Row: "FFF-01", Containers: true, Edit: Edit{File: "all/a.go"}}}
	for n, want := range map[int]string{3: "AAA-02 BBB-02 CCC-02|CCC-03",
		4:  "AAA-02 BBB-02 CCC-02|CCC-03 DDD-01|DDD-02",
		6:  "AAA-02 BBB-02 CCC-02 CCC-03 DDD-01 DDD-02",
		9:  "AAA-01 AAA-02 BBB-01 BBB-02 CCC-01 CCC-02 CCC-03 DDD-01 DDD-02",
		20: "AAA-01 AAA-02 BBB-01 BBB-02 CCC-01 CCC-02 CCC-03 DDD-01 DDD-02"} {
		ids := func(ms []Mutation) (out []string) {
			for _, m := range ms {
				out = append(out, m.Row)
			}
			slices.Sort(out)
			return out
		}
		got := ids(Sample(all, n))
		reversed := slices.Clone(all)
		slices.Reverse(reversed)
		if again := ids(Sample(reversed, n)); !slices.Equal(got, again) {
			t.Errorf("%d of the same in another order: got %q, want %q", n, again, got)
		}
		if !slices.EqualFunc(got, strings.Fields(want), func(g, w string) bool {
			return slices.Contains(strings.Split(w, "|"), g)
		}) {
			t.Errorf("%d of all: got %q, want %q", n, got, want)
		}
	}
}

func TestDecide(t *testing.T) {
	want := Test{In: "p", Run: "TestA/one case", Says: "want 3"}
	for _, c := range []struct {
		name   string
		events []event
		want   Outcome
	}{
		{"failed as expected", []event{{"output", "TestA/one_case", "got 2, want 3\n"}, {"fail", "TestA/one_case", ""}},
			Killed},
		{"failed in a subtest", []event{{"output", "TestA/one_case/x", "got 2, want 3\n"},
			{"fail", "TestA/one_case/x", ""},
			{"fail", "TestA/one_case", ""}}, Killed},
		{"another message", []event{{"output", "TestA/one_case", "no room\n"}, {"fail", "TestA/one_case", ""}},
			WrongMessage},
		{"another test failed", []event{{"output", "TestB", "want 3\n"}, {"fail", "TestB", ""},
			{"pass", "TestA/one_case", ""}},
			Survived},
		{"skipped", []event{{"skip", "TestA/one_case", ""}}, Skipped},
		{"not run", []event{{"pass", "TestA", ""}}, NoSuchTest},
		{"panics", []event{{"output", "TestA/one_case", "panic: want 3\n"}, {"fail", "TestA/one_case", ""}}, Panicked},
		{"hangs", []event{{"output", "TestA/one_case", "panic: test timed out after 1m0s\n"},
			{"fail", "TestA/one_case", ""}},
			TimedOut},
	} {
		if got, _ := Decide(c.events, want); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestChangedNamesTheRowOfATextThatIsGone(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte("x := 1\ny := 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ find, want string }{
		{"x := 2", `ABC-01: a.go no longer has the text "x := 2"`},
		{":= 1", `ABC-01: a.go has the text ":= 1" 2 times`},
	} {
		_, err := Mutation{Row: "ABC-01", Edit: Edit{File: "a.go", Find: c.find, Put: "z"}}.Changed(root)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("find %q: got %v, want an error with %q", c.find, err, c.want)
		}
	}
	texts, err := Mutation{Edit: Edit{File: "a.go", Find: "x := 1", Put: "x := 3"},
		Also: []Edit{{File: "a.go", Find: "y := 1", Put: "y := 4"}}}.Changed(root)
	if want := "x := 3\ny := 4\n"; err != nil || texts["a.go"] != want {
		t.Errorf("two edits of one file: got %q, %v, want %q", texts["a.go"], err, want)
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct{ yaml, want string }{
		{"- row: BND-6x\n  none: later\n", `row "BND-6x": want an ID`},
		{"- row: BND-06\n", "file, find and a put"},
		{"- row: BND-06\n  file: a.go\n  find: x\n  put: z\n", "tests are wanted"},
		{"- row: BND-06\n  file: a.go\n  find: x\n  put: z\n  tests: [{in: p, run: TestA, says: '('}]\n", "says: "},
		{"- row: BND-06\n  file: a_test.go\n  find: x\n  put: z\n  tests: [{in: p, run: TestA, says: x}]\n",
			"changes the product"},
		{"- row: BND-06\n  none: a\n- row: BND-06\n  none: b\n", `"BND-06" is in`},
		{"- row: BND-06\n  nome: a\n", "unknown field"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(c.yaml), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want an error with %q", c.yaml, err, c.want)
		}
	}
}
