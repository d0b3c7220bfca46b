package shellquote_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
)

// A command of somebody else's Pod stays the words that it is when it is copied into a shell.
func TestWordsAreWords(t *testing.T) {
	all := []string{"sh", "-c", "exit 1; id", "it's", "$(id)", "`id`", "", "a=b"}
	out, err := exec.Command("sh", "-c", "printf '%s|' "+shellquote.Words(all)).CombinedOutput()
	if want := strings.Join(all, "|") + "|"; err != nil || string(out) != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
	if got := shellquote.Words([]string{"id", "-u", "www-data"}); got != "id -u www-data" {
		t.Errorf("got %q, want plain words without quotes", got)
	}
}

// A text of somebody else's object is one JSON string in a patch, whatever letters it has.
func TestJSONIsJSON(t *testing.T) {
	for _, s := range []string{"plain", "it's \"quoted\"", "\x00\a\v", "\u00ff", "a\nb", "\U000e0001"} {
		var got string
		if err := json.Unmarshal([]byte(shellquote.JSON(s)), &got); err != nil || got != s {
			t.Errorf("%q: got %q, %v", s, got, err)
		}
	}
}
