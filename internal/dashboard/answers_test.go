package dashboard

import (
	"testing"

	"github.com/gantry-project/gantry/internal/journal"
)

// The board is of the Pod that is there, not of one that had its name.
func TestTheBoardIsOfThePodThatIsThere(t *testing.T) {
	entry := func(uid string, f journal.Fact) journal.Entry {
		return journal.Entry{Ref: journal.Ref{Name: "web-0", UID: uid}, Fact: f}
	}
	started := journal.ContainerStarted{Container: "c"}
	former, own := entry("a", journal.Ruled{Winner: "n1"}), entry("b", journal.Ruled{Winner: "n2"})
	for name, c := range map[string]struct {
		entries []journal.Entry
		uid     string // of the Pod that is there
		want    string // the winner
	}{
		"none":             {},
		"its own":          {[]journal.Entry{former, own, entry("b", started)}, "b", "n2"},
		"a former Pod's":   {[]journal.Entry{former, entry("b", started)}, "b", ""},
		"no entry yet":     {[]journal.Entry{former}, "b", ""},
		"a late entry":     {[]journal.Entry{former, own, entry("a", started)}, "b", "n2"},
		"the last is gone": {[]journal.Entry{former, own, entry("b", started)}, "", "n2"},
		"two of one Pod's": {[]journal.Entry{entry("a", journal.Ruled{Winner: "n0"}), former}, "a", "n1"},
	} {
		got := ""
		if r := lastRuled(c.entries, c.uid); r != nil {
			got = r.Winner
		}
		if got != c.want {
			t.Errorf("%s: got the attempt won by %q, want %q", name, got, c.want)
		}
	}
}
