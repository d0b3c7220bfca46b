package status

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/status"
	"github.com/gantry-project/gantry/test/kubeconfig"
	"github.com/gantry-project/gantry/testcluster"
)

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	io := cli.IO{Out: &out, Err: &out}
	root := cli.Root(io, New(io))
	root.SetArgs(append([]string{"status"}, args...))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// Against a cluster the command lists all eight processes, each with its state.
//
// row: TOO-14
func TestStatusOfACluster(t *testing.T) {
	c := testcluster.Start(t, testcluster.WithNodes("n1", "n2"))
	file := kubeconfig.Of(t, c.Config)
	text, err := run(t, "--kubeconfig", file, "-o", "json")
	var m status.Map
	if err != nil || json.Unmarshal([]byte(text), &m) != nil {
		t.Fatalf("got %v\n%s", err, text)
	}
	for name, want := range map[string]status.Health{"kube-apiserver": status.OK, "etcd": status.OK,
		"kubelet on n1":           status.OK,
		"container runtime on n2": status.OK, "kube-scheduler": "", "kube-controller-manager": "",
		"kube-proxy on n1": "", "DNS": ""} {
		p, ok := m.Find(name)
		if !ok || p.Health == "" || p.Because == "" || want != "" && p.Health != want {
			t.Errorf("%s: got %+v, want %q", name, p, want)
		}
	}
	if p, _ := m.Find("kube-apiserver"); p.Version == "" || p.Load == "" {
		t.Errorf("the API server has no version or load: %+v", p)
	}
	for form, want := range map[string]string{"text": "Who talks to whom:", "svg": "</svg>"} {
		if text, err := run(t, "--kubeconfig", file, "-o", form); err != nil || !strings.Contains(text, want) {
			t.Errorf("-o %s got %v\n%s", form, err, text)
		}
	}
	if text, err := run(t, "-o", "table"); err == nil || !strings.Contains(err.Error(), "must be text, json or svg") {
		t.Errorf("an unknown form got %v\n%s", err, text)
	}
}

// An API server that does not answer is down, and the exit code says so.
//
// row: TOO-14
func TestNoAPIServer(t *testing.T) {
	c := testcluster.Start(t, testcluster.WithNodes())
	cfg := *c.Config
	cfg.Host, cfg.Transport = "https://127.0.0.1:1", nil
	text, err := run(t, "--kubeconfig", kubeconfig.Of(t, &cfg))
	if err == nil || !strings.Contains(err.Error(), "kube-apiserver is down") || !strings.Contains(text, "✗") {
		t.Errorf("got %v\n%s", err, text)
	}
}
