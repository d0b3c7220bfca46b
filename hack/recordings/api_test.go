package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the list of cases that are answered otherwise")

// unequal lists the recorded cases that are answered otherwise on purpose, or as v1.37.2 does
// (docs/compatibility/differences.md has the reasons), one a line.
const unequal = "testdata/unequal.txt"

// All of upstream's recorded requests are sent to an API server in this process. A case that is
// answered otherwise and is not in the list fails, and so does one in the list that is equal now.
func TestTheRecordedRequestsAreAnsweredAsUpstreamDid(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: sends 1,653 requests")
	}
	discardLogs(t.Output())
	report, err := runAPI(t.Context(), options{recordings: "../../test/recordings", only: regexp.MustCompile("")})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	details := map[string]string{}
	for _, u := range report.Unequal {
		got = append(got, u.Name)
		var said []string
		for _, d := range u.Differences {
			said = append(said, d.String())
		}
		if u.Err != nil {
			said = append(said, u.Err.Error())
		}
		details[u.Name] = strings.Join(said, "\n    ")
	}
	slices.Sort(got)
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(unequal), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(unequal, []byte(strings.Join(got, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(unequal)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(string(raw))
	for _, name := range got {
		if !slices.Contains(want, name) {
			t.Errorf("%s: the answer is not the recorded one:\n    %s", name, details[name])
		}
	}
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("%s: got the recorded answer, want it to differ: take it out of %s", name, unequal)
		}
	}
	if all := report.Total().All; all < 1600 {
		t.Errorf("got %d cases, want all 1,653: some were not sent", all)
	}
}
