package noderole

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

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

// The kubelet's port shows under /configz what is in force: what the file says, over the defaults.
//
// row: KSL-02
func TestConfigzShowsWhatIsInForce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+
		"maxPods: 77\nclusterDomain: cut.example\nport: 10255\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &options.Instance{DataDir: t.TempDir(), NodeName: "n", KubeletPort: 10250}
	n := &KubeletOptions{ConfigSources: kubeconfig.Sources{File: path}}
	if err := n.Load(p, nil); err != nil {
		t.Fatal(err)
	}
	o := (&Role{instance: p, config: n.Loaded.Config}).serverOptions()
	raw, err := json.Marshal(o.Configz())
	if err != nil {
		t.Fatal(err)
	}
	var shown kubeletconfig.KubeletConfiguration
	if err := json.Unmarshal(raw, &shown); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintln(shown.Kind, shown.APIVersion, shown.MaxPods, shown.ClusterDomain, shown.Port,
		shown.SyncFrequency.Duration), "KubeletConfiguration kubelet.config.k8s.io/v1beta1 77 cut.example 10255 "+
		"1m0s\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := fmt.Sprintln(o.NodeName, o.Port), "n 10255\n"; got != want {
		t.Errorf("the port: got %s, want %s", got, want)
	}
}

// With protectKernelDefaults a kernel that is tuned otherwise than upstream's kubelet tunes it ends
// the start, and each value is named.
func TestProtectedKernelDefaults(t *testing.T) {
	good := map[string]string{"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10",
		"kernel/panic_on_oops": "1", "kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000"}
	for name, c := range map[string]struct {
		change map[string]string
		want   []string
	}{
		"as upstream sets it": {},
		"two that are not": {map[string]string{"vm/overcommit_memory": "0", "kernel/panic": "-1"},
			[]string{"invalid kernel flag: vm/overcommit_memory, expected value: 1, actual value: 0",
				"invalid kernel flag: kernel/panic, expected value: 10, actual value: -1"}},
		"one that cannot be read": {map[string]string{"kernel/keys/root_maxkeys": ""}, []string{"invalid syntax"}},
	} {
		dir := t.TempDir()
		tuned := maps.Clone(good)
		maps.Copy(tuned, c.change)
		for file, value := range tuned {
			path := filepath.Join(dir, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
				os.WriteFile(path, []byte(value+"\n"), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		err := checkKernelTunables(dir)
		if (err != nil) != (len(c.want) > 0) {
			t.Errorf("%s: got %v, want an error: %t", name, err, len(c.want) > 0)
		}
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want one with %q", name, err, want)
			}
		}
	}
	if err := checkKernelTunables(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without /proc/sys: got %v, want the missing files named", err)
	}
}
