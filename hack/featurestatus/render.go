package main

import (
	"bytes"
	"fmt"
	"strings"
)

const head = "# Features\n\n" +
	"Rendered by `make ledger` from the tests that name a row, the last run of `make test`, and the\n" +
	"results of `make mutants`. A row is *proven* when such a test passed and every mutation of the row\n" +
	"(test/mutants) was killed in the code as it is; *tested* when such a test passed; *broken* when one\n" +
	"failed. **Killed** counts the row's mutations.\n\n"

func render(all []status) []byte {
	states := []string{proven, tested, broken, notYet}
	counts, total := map[string]map[string]int{}, map[string]int{}
	var areas []string
	var body bytes.Buffer
	for _, s := range all {
		if counts[s.area] == nil {
			counts[s.area] = map[string]int{}
			areas = append(areas, s.area)
			fmt.Fprintf(&body,
				"\n## %s\n\n| Row | Behaviour | State | Killed | Test |\n| --- | --- | --- | --- | --- |\n",
				s.area)
		}
		counts[s.area][s.state]++
		total[s.state]++
		killed := ""
		if s.mutant > 0 {
			killed = fmt.Sprintf("%d of %d", s.killed, s.mutant)
		}
		fmt.Fprintf(&body, "| %s | %s | %s | %s | %s |\n", s.id, s.text, s.state, killed, list(s.tests))
	}
	var b bytes.Buffer
	b.WriteString(head + "| Area | Proven | Tested | Broken | Not yet | Rows |\n| --- | --- | --- | --- | --- | --- " +
		"|\n")
	line := func(name string, of map[string]int, bold string) {
		sum := 0
		b.WriteString("| " + bold + name + bold)
		for _, s := range states {
			sum += of[s]
			fmt.Fprintf(&b, " | %s%d%s", bold, of[s], bold)
		}
		fmt.Fprintf(&b, " | %s%d%s |\n", bold, sum, bold)
	}
	for _, a := range areas {
		line(a, counts[a], "")
	}
	line("all", total, "**")
	b.Write(body.Bytes())
	return b.Bytes()
}

// list names at most three tests.
func list(tests []string) string {
	var names []string
	for i, t := range tests {
		if i == 3 {
			names = append(names, fmt.Sprintf("and %d more", len(tests)-3))
			break
		}
		names = append(names, "`"+t+"`")
	}
	return strings.Join(names, ", ")
}
