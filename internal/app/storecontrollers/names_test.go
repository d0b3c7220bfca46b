package storecontrollers

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/control"
)

// byOthers are controllers that neither control.All nor All has: app runs the first where there is
// a signing key, the API server's own loops are the second.
var byOthers = []string{"certificatesigning", "service-cidr"}

var pageRow = regexp.MustCompile("^\\| (?:`([a-z-]+)`|\\(.*\\)) \\| (?:`([a-z-]+)`|none) \\| (.*)\\|$")

// Each controller of kube-controller-manager is there, or the page says why it is not; and every
// controller that runs is on the page.
func TestControllersOfKubeControllerManager(t *testing.T) {
	raw, err := os.ReadFile("testdata/kube-controller-manager-v1.37.2.txt")
	if err != nil {
		t.Fatal(err)
	}
	upstream := strings.Fields(string(raw))
	page, err := os.ReadFile("../../../docs/compatibility/controllers.md")
	if err != nil {
		t.Fatal(err)
	}
	running := slices.Clone(byOthers)
	for _, c := range control.All {
		running = append(running, c.Name)
	}
	for _, c := range All() {
		running = append(running, c.Name)
	}
	var named, used []string
	for _, line := range strings.Split(string(page), "\n") {
		m := pageRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		name, ours, note := m[1], m[2], strings.TrimSpace(m[3])
		t.Logf("%-65s %-25s %s", name, ours, note)
		switch refused := strings.HasPrefix(note, "not there: "); {
		case ours == "" && !refused:
			t.Errorf("%s: got note %q, want why it is not there", name, note)
		case ours != "" && refused:
			t.Errorf("%s: got %s and the note that it is not there", name, ours)
		case ours != "" && !slices.Contains(running, ours):
			t.Errorf("%s: got %s, which does not run", name, ours)
		}
		if name != "" {
			named = append(named, name)
		}
		used = append(used, ours)
	}
	slices.Sort(named)
	if !slices.Equal(named, upstream) {
		t.Errorf("got a page of %q\nwant each once of %q", named, upstream)
	}
	for _, ours := range running {
		if !slices.Contains(used, ours) {
			t.Errorf("got no row of %s in docs/compatibility/controllers.md, want what it is upstream", ours)
		}
	}
}
