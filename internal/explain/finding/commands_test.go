package finding

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	for _, value := range []string{"a", "'; id; '", "$(id)\\", "\a\x01"} {
		o := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "r"}}
		c := &Cluster{Objects: map[string][]metav1.Object{"Role": {o}}}
		run := c.replaceCommand(Object{"Role", "n", "r"}, "rules[0].verbs[0]", value)
		if len(run) != 1 {
			t.Fatalf("got %q, want one command", run)
		}
		out, err := exec.Command("sh", "-c", strings.Replace(run[0], "kubectl -n n patch role r --type=json -p",
			"printf %s", 1)).CombinedOutput()
		var patch []struct{ Value string }
		if err != nil || json.Unmarshal(out, &patch) != nil || len(patch) != 1 || patch[0].Value != value {
			t.Errorf("%q: %s gives %q, %v", value, run[0], out, err)
		}
	}
}
