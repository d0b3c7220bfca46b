package finding

import (
	"os/exec"
	"strings"
	"testing"
)

// What others wrote into objects never becomes a command of its own in what is to be copied.
func TestCommandsHoldWhatOthersWrote(t *testing.T) {
	for _, name := range []string{"plain-1.x_y:z", "x;id", "it's", "$(id)", "a b", "`id`", "'", `"`, ""} {
		command := strings.Replace(kubectl(Object{"Role", "n", name}, "patch", ""), "kubectl", "printf '%s|'", 1)
		out, err := exec.Command("sh", "-c", command).CombinedOutput()
		if want := "-n|n|patch|role|" + name + "|"; err != nil || string(out) != want {
			t.Errorf("%q: %s gives %q, %v, want %q", name, command, out, err, want)
		}
	}
	for _, raw := range []string{`[{"value":"a"}]`, `[{"value":"'; id; '"}]`, `[{"value":"$(id)\\"}]`} {
		out, err := exec.Command("sh", "-c", "printf %s "+shellJSON(raw)).CombinedOutput()
		if want := strings.ReplaceAll(raw, "'", `\u0027`); err != nil || string(out) != want {
			t.Errorf("got %q, %v, want %q", out, err, want)
		}
	}
}
