package trace

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/test/kubeconfig"
	"github.com/gantry-project/gantry/testcluster"
)

func TestTraceOfKubectlWrites(t *testing.T) {
	for _, line := range []string{"apply", "create", "create configmap", "create secret generic",
		"create service clusterip"} {
		c, rest, err := cli.Root(cli.IO{}, New(cli.IO{})).Find(append([]string{"trace"}, strings.Fields(line)...))
		if err != nil || len(rest) > 0 || c.RunE == nil || c.Run != nil {
			t.Errorf("trace %s runs as kubectl does and tells nothing (%q, %v)", line, rest, err)
		}
	}
}

// gantry trace apply prints the stages of a write from the client to etcd, in their order, each
// with when it began and how long it took; and stores what kubectl would.
//
// row: TOO-13
func TestTraceApplyPrintsTheStages(t *testing.T) {
	c := testcluster.Start(t, testcluster.WithNodes())
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: told, namespace: default}\n"+
		"data: {a: b}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	streams := cli.IO{Out: &out, Err: &errOut}
	root := cli.Root(streams, New(streams))
	root.SetArgs([]string{"trace", "apply", "-f", file, "--kubeconfig", kubeconfig.Of(t, c.Config), "--story", "all",
		"--validate=false"})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("got %v\n%s%s", err, out.String(), errOut.String())
	}
	text := out.String()
	for _, stage := range []string{"authentication", "authorization", "reading and defaulting", "mutation",
		"preparation and validation", "admission", "storage"} {
		at := regexp.MustCompile(`(?m)^ +\S+ .*` + stage + `.*$`).FindStringIndex(text)
		if at == nil {
			t.Fatalf("the stages lack %s, or they are in another order:\n%s", stage, out.String())
		}
		if line := text[at[0]:at[1]]; len(regexp.MustCompile(`\d(µs|ms|s)\b`).FindAllString(line, -1)) < 2 {
			t.Errorf("%s has no begin and duration: %q", stage, line)
		}
		text = text[at[1]:]
	}
	if !strings.Contains(out.String(), "at revision ") {
		t.Errorf("where it is stored is not told:\n%s", out.String())
	}
}
