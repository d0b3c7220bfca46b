package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A configuration file may name the API server, as kube-scheduler's does; one that does not is
// refused with what is wanted.
func TestTheConfigurationNamesTheAPIServer(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	kubeconfig := write("kubeconfig",
		`{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://192.0.2.1:6443"}}], users: [{name: u, user: {token: t}}]}`)
	head := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	c, err := ClientOfConfig(write("named.yaml", head+"clientConnection: {kubeconfig: "+kubeconfig+"}\n"))
	if err != nil || c.Host != "https://192.0.2.1:6443" || c.BearerToken != "t" {
		t.Errorf("got %+v, %v, want no error, Host https://192.0.2.1:6443 and BearerToken t", c, err)
	}
	for name, want := range map[string]string{write("unnamed.yaml", head): "clientConnection.kubeconfig",
		filepath.Join(dir, "none.yaml"): "none.yaml"} {
		if _, err := ClientOfConfig(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want it to name %s", name, err, want)
		}
	}
}
