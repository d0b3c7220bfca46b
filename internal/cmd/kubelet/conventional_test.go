package kubelet

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gantry-project/gantry/internal/app"
	"github.com/gantry-project/gantry/internal/cli"
)

// A kubelet without flags takes kubelet.conf and config.yaml from where kubeadm puts them;
// what is named counts more.
//
// row: KSL-04
func TestConventionalFiles(t *testing.T) {
	root := t.TempDir()
	for _, file := range []string{kubeletKubeconfig, kubeletConfigFile} {
		if err := os.MkdirAll(filepath.Dir(root+file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(root+file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ root, kubeconfig, wantKubeconfig, wantConfig string }{
		{root, "", root + "/etc/kubernetes/kubelet.conf", root + "/var/lib/kubelet/config.yaml"},
		{root, "/other", "/other", root + "/var/lib/kubelet/config.yaml"},
		{t.TempDir(), "", "", ""},
	} {
		k := &app.Kubelet{}
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.StringVar(&k.Role.Kubeconfig, "kubeconfig", "", "")
		f.StringVar(&k.Node.ConfigSources.File, "config", "", "")
		if c.kubeconfig != "" {
			if err := f.Set("kubeconfig", c.kubeconfig); err != nil {
				t.Fatal(err)
			}
		}
		conventionalPaths(k, c.root, f)
		if k.Role.Kubeconfig != c.wantKubeconfig || k.Node.ConfigSources.File != c.wantConfig {
			t.Errorf("%q, %q; want %q, %q", k.Role.Kubeconfig, k.Node.ConfigSources.File, c.wantKubeconfig,
				c.wantConfig)
		}
	}
	if c, _, err := cli.Root(cli.IO{}, New(cli.IO{})).Find([]string{"kubelet"}); err != nil ||
		c.Flags().Lookup("kubeconfig") == nil || c.Flags().Lookup("config") == nil {
		t.Errorf("%v: the flags have other names", err)
	}
}
