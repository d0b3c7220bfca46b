package why

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The quickest fixtures with a real node: the answer names the cause, claims nothing wrong, and a printed remedy, pasted into a shell before a fresh node, makes the
// Pod ready. GANTRY_LONG=1 plays more, `make why` all.
func TestAnswersAboutNodes(t *testing.T) {
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
	only := regexp.MustCompile("^(tag-that-is-not-there|probe-at-the-wrong-door)$")
	if os.Getenv("GANTRY_LONG") != "" {
		only = regexp.MustCompile("^(tag-that-is-not-there|key-in-lower-case|the-child-was-killed|probe-at-the-wrong-door|user-with-a-name|limit-on-the-whole-pod|waits-for-what-comes-after-it)$")
	}
	fixtures, err := Load("../../fixtures/why", only)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range fixtures {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			s := Run(t.Context(), Options{Binary: binary, Number: 85 + i, Remedies: 3}, f)
			if s.Err != nil {
				t.Fatal(s.Err)
			}
			if s.Points() != 4 {
				t.Errorf("%d of 4 points; missing %v, wrongly claimed %v, remedies %v\n%s", s.Points(), s.Missing, s.Claimed, strings.Join(s.Tried, "\n"), s.Answer.Text)
			}
		})
	}
}
