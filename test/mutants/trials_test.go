package mutants

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestTrialsAreOfRows checks trials.yaml: every row is one of features, no row is drawn twice, and
// the page's table has as many rows that were noticed.
func TestTrialsAreOfRows(t *testing.T) {
	raw, err := os.ReadFile("trials.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var trials []struct {
		Seed int
		Rows []struct{ Row, Break, Drawn, Test, None string }
	}
	if err := yaml.UnmarshalStrict(raw, &trials); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/contributing/trial.md")
	if err != nil {
		t.Fatal(err)
	}
	features, err := os.ReadFile("../features/rows.md")
	if err != nil {
		t.Fatal(err)
	}
	drawn := map[string]int{}
	for _, trial := range trials {
		count := map[string]int{}
		for _, r := range trial.Rows {
			if !strings.Contains(string(features), "| "+r.Row+" |") {
				t.Errorf("seed %d: got the row %q, want one of test/features/rows.md", trial.Seed, r.Row)
			}
			if seed, twice := drawn[r.Row]; twice {
				t.Errorf("seed %d: got %s, which seed %d drew, want another row", trial.Seed, r.Row, seed)
			}
			if (r.Drawn == "missed") != (r.Test != "" || r.None != "") && r.Drawn != "not run" {
				t.Errorf("seed %d: %s: got %s, noticed by %q, or by none for %q: want a test or a reason for what "+
					"was missed alone", trial.Seed, r.Row, r.Drawn, r.Test, r.None)
			}
			drawn[r.Row] = trial.Seed
			count[r.Drawn]++
		}
		want := fmt.Sprintf("%d of %d", count["noticed"], len(trial.Rows)-count["not run"])
		line := regexp.MustCompile(fmt.Sprintf(`(?m)^\| %d \|.*$`, trial.Seed)).FindString(string(page))
		if !strings.Contains(line, "| "+want) {
			t.Errorf("seed %d: the page says %q, want %q as trials.yaml has it", trial.Seed, line, want)
		}
	}
}
