package why

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The quickest fixtures with a real node: the answer names the cause, claims nothing wrong, and a
// printed remedy, pasted into a shell before a fresh node, makes the Pod ready. GANTRY_LONG=1 plays
// all that this node can play.
func TestAnswersAboutNodes(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 || testing.Short() {
		t.Skip("runs containers: needs root")
	}
	binary, err := filepath.Abs("../../../build/bin/gantry")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(binary); err != nil {
		t.Skip("run `make build` first")
	}
	only, own := regexp.MustCompile("^(tag-that-is-not-there|probe-at-the-wrong-door)$"),
		regexp.MustCompile("^(link-out-of-the-volume|started-but-the-hook-runs)$")
	if os.Getenv("GANTRY_LONG") != "" {
		only, own = nil, nil
	}
	fixtures, err := Load("../../fixtures/why", only)
	if err != nil {
		t.Fatal(err)
	}
	more, err := Load("../../fixtures/why-own", own)
	if err != nil {
		t.Fatal(err)
	}
	fixtures = slices.DeleteFunc(append(fixtures, more...), func(f Fixture) bool {
		return !f.real() || slices.ContainsFunc(f.Setup, func(s Step) bool { return s.Do == "node-disk" })
	})
	for i, f := range fixtures {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			s := Run(t.Context(), Options{Binary: binary, Number: 85 + i, Remedies: 3}, f)
			if s.Err != nil {
				t.Fatal(s.Err)
			}
			if all := f.points(s); s.Points() != all {
				t.Errorf("%d of %d points; missing %v, wrongly claimed %v, remedies %v\n%s", s.Points(), all, s.Missing,
					s.Claimed, strings.Join(s.Tried, "\n"), s.Answer.Text)
			}
		})
	}
}

// points are what an answer can win: where nothing but somebody's program could resolve it, no
// command has to.
func (f Fixture) points(s Score) int {
	if f.Expected.ResolvedWhen == nil && !s.Remedy {
		return 3
	}
	return 4
}
