package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"regexp"
	"sort"
	"strings"
)

const pageHead = `# Random mutations

How many small random changes of the packages that decide something the tests notice. Rendered by
` + "`make mutants-random`" + ` (the doc of hack/mutants/random says which changes are made); a run of
some packages renews their lines alone. The aim is 85 % for each package. The tests are those of
the package and those that hack/mutants/random/packages.txt names beside it, which for kinds of
internal/apiserver/registry are upstream's recorded answers about them; whole servers, which test
them as well, take too long here.

*Noticed* is every change with which a test fails; *without an assertion* is the part of it where a
test panics or hangs. ` + "`go run ./hack/mutants/random -survivors`" + ` prints what survived a run. *Same*
are changes of the package that change nothing anyone could see: they are listed with the reason in
hack/mutants/random/equivalent.yaml and never drawn.

| package | drawn | noticed | without an assertion | survived | same | date, commit, seed |
| --- | --: | --: | --: | --: | --: | --- |
`

// line is a package's line of the page.
func line(p summary, count map[string]int) string {
	all, noticed, lived := 0, count[killed]+count[panicked]+count[hung], count[survived]+count[notReached]
	all = noticed + lived
	percent := 100.0
	if all > 0 {
		percent = 100 * float64(noticed) / float64(all)
	}
	return fmt.Sprintf("| %s | %d | %.0f %% | %d | %d | %d | %s, %s, %d |", strings.TrimPrefix(p.Path, modulePath), all,
		percent, count[panicked]+count[hung], lived, p.Equivalent, p.Date, p.Commit, p.Seed)
}

var ownLine = regexp.MustCompile(`^\| ((?:internal|scheduler)/\S+) \|`)

// writePage renders the page: the lines of the results, and those that the page has of other
// packages.
func writePage(file string, s *results) error {
	lines := map[string]string{}
	raw, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for old := bufio.NewScanner(strings.NewReader(string(raw))); old.Scan(); {
		if m := ownLine.FindStringSubmatch(old.Text()); m != nil {
			lines[m[1]] = old.Text()
		}
	}
	for path, p := range s.Packages {
		lines[strings.TrimPrefix(path, modulePath)] = line(p, s.count(p))
	}
	var names []string
	for name := range lines {
		names = append(names, name)
	}
	sort.Strings(names)
	var b strings.Builder
	b.WriteString(pageHead)
	for _, name := range names {
		b.WriteString(lines[name] + "\n")
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}
