package noderole

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	kubeconfig "github.com/gantry-project/gantry/internal/kubelet/config"
	"github.com/gantry-project/gantry/internal/options"
)

func TestBadKubeletConfigurationNamesTheField(t *testing.T) {
	for content, want := range map[string]string{
		"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPodz: 3\n": "maxPodz",
		"apiVersion: v1\nkind: Pod\n": "metadata",
		"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: -1\n": "maxPods",
		"not: [yaml":  "line",
		"kind: Other": "KubeletConfiguration",
	} {
		path := filepath.Join(t.TempDir(), "kubelet.yaml")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		p := &options.Instance{DataDir: t.TempDir(), KubeletPort: 10250}
		n := &KubeletOptions{ConfigSources: kubeconfig.Sources{File: path}}
		err := n.Load(p, nil)
		if err == nil || !strings.Contains(err.Error(), want) && !strings.Contains(err.Error(),
			"KubeletConfiguration") {
			t.Errorf("%q: got %v, want an error that names %s", content, err, want)
		}
	}
}
