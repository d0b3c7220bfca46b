package why

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// atOnce is how many fixtures are played side by side. Most of their time they wait: for back-offs,
// for probes, for what shall stay as it is.
const atOnce = 4

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// quick are the fixtures that `make test` plays; GANTRY_LONG=1 plays all, and `make why` those too
// that need minutes.
var quick = regexp.MustCompile(
	"^(cpu-here-memory-there|image-pulls-it-to-the-busy-node|spread-taint-affinity-triangle|volume-in-the-full-zone)$")

// Fixtures about scheduling: the answer names the cause with its numbers, claims nothing wrong, and
// every printed remedy that is called proven, pasted into a shell before a fresh cluster, lets the
// Pod be placed.
func TestAnswersAboutPlacing(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 || testing.Short() {
		t.Skip("starts whole control planes: needs root")
	}
	binary, err := filepath.Abs("../../../build/bin/gantry")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(binary); err != nil {
		t.Skip("run `make build` first")
	}
	only, own, all := quick, regexp.MustCompile("^(scratch-space-counts-too|cordoned-but-still-counted)$"), false
	if os.Getenv("GANTRY_LONG") != "" {
		all, own = true, nil
		only = regexp.MustCompile(
			"^(cpu-here-memory-there|gpu-of-the-other-vendor|image-pulls-it-to-the-busy-node|balance-beats-emptiness|" +
				"nominated-and-waiting|spread-taint-affinity-triangle|" +
				"urgent-but-never-preempts|too-many-pods|zone-label-of-another-age|volume-in-the-full-zone|" +
				"gang-waits-for-its-third|budget-does-not-stop-preemption|quota-counts-the-init-container|" +
				"backup-finalizer|its-node-was-removed|sick-pods-that-may-not-leave)$")
	}
	fixtures, err := Load("../../fixtures/why", only)
	if err != nil {
		t.Fatal(err)
	}
	more, err := Load("../../fixtures/why-own", own)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range more {
		if slices.Contains([]string{"FIL", "SCH", "SCO", "BND"}, f.Area) && f.Needs == "fake-nodes" {
			fixtures = append(fixtures, f)
		}
	}
	for i, f := range fixtures {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			s := Run(t.Context(), Options{Binary: binary, Number: 70 + i, Remedies: 10, Every: all}, f)
			if s.Err != nil {
				t.Fatal(s.Err)
			}
			if len(s.Ineffective) > 0 {
				t.Errorf("called proven, and does not help: %s", strings.Join(s.Ineffective, "; "))
			}
			if s.Points() != 4 {
				t.Errorf("%d of 4 points; missing %v, wrongly claimed %v, remedies %v\n%s", s.Points(), s.Missing,
					s.Claimed, strings.Join(s.Tried, "\n"), s.Answer.Text)
			}
		})
	}
}
