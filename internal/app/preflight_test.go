package app

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	kubeconfig "github.com/gantry-project/gantry/internal/kubelet/config"
)

// printed is what a person sees of an error.
func printed(err error) string {
	var b bytes.Buffer
	report(&b, err)
	return b.String()
}

func TestMissingKernelFeaturesAreNamedWithTheirRemedy(t *testing.T) {
	root := t.TempDir()
	want := func(texts ...string) {
		t.Helper()
		got := printed(requireKernel(root))
		for _, x := range texts {
			if !strings.Contains(got, x) {
				t.Errorf("lacks %q: %s", x, got)
			}
		}
	}
	put := func(path, content string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want("/proc/filesystems", "mount proc")
	put("proc/filesystems", "nodev\ttmpfs\n")
	want("overlayfs", "modprobe overlay")
	put("proc/filesystems", "nodev\toverlay\n")
	want("network namespaces", "CONFIG_NET_NS")
	put("proc/self/ns/net", "")
	want("cgroup", "mount -t cgroup2")
	put("sys/fs/cgroup/x", "")
	if err := requireKernel(root); err != nil {
		t.Error(err)
	}
}

func TestTakenPortNamesItsFlag(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	if got := printed(requirePort("127.0.0.1", port, "--secure-port")); !strings.Contains(got, "is taken") ||
		!strings.Contains(got, "--secure-port") {
		t.Errorf(`got %v, want it with "is taken" and with --secure-port`, got)
	}
}

func TestOneInstancePerDataDirectory(t *testing.T) {
	dir := t.TempDir()
	first, err := lockDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lockDataDir(dir)
	if got := printed(err); !strings.Contains(got, "in use by process") || !strings.Contains(got, "--data-dir") {
		t.Errorf(`got %v, want it with "in use by process" and with --data-dir`, got)
	}
	first.release()
	second, err := lockDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	second.release()
}

func TestPlaceRefusesWhatCannotBe(t *testing.T) {
	for want, set := range map[string]func(*instanceOptions){
		"--node-name":                func(p *instanceOptions) { p.nodeName = "A_b" },
		"--node-ip":                  func(p *instanceOptions) { p.nodeIP = "nowhere" },
		"--bind-address":             func(p *instanceOptions) { p.bindAddress = "all" },
		"--secure-port":              func(p *instanceOptions) { p.securePort = 70000 },
		"--service-cluster-ip-range": func(p *instanceOptions) { p.serviceCIDR = "10.96" },
	} {
		p := instanceOptions{dataDir: t.TempDir(), nodeName: "n"}
		set(&p)
		err := p.complete()
		var usage usageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error that is a usage and an error with %v", want, err, want)
		}
	}
}

func TestEverySubcommandHasHelpWithAnExample(t *testing.T) {
	var look func(all ...*cobra.Command)
	look = func(all ...*cobra.Command) {
		for _, c := range all {
			if c.Short == "" || c.Example == "" {
				t.Errorf("%s lacks a sentence or an example", c.CommandPath())
			}
			look(c.Commands()...)
		}
	}
	look(Root(IO{}))
}

func TestEachWriteOfKubectlTellsHowItWent(t *testing.T) {
	for _, line := range []string{"apply", "create", "create configmap", "create secret generic",
		"create service clusterip"} {
		c, rest, err := Root(IO{}).Find(append([]string{"trace"}, strings.Fields(line)...))
		if err != nil || len(rest) > 0 || c.RunE == nil || c.Run != nil {
			t.Errorf("trace %s runs as kubectl does and tells nothing (%q, %v)", line, rest, err)
		}
	}
}

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
		p := &instanceOptions{dataDir: t.TempDir(), kubeletPort: 10250}
		n := &nodeFlags{configSources: kubeconfig.Sources{File: path}}
		err := n.loadConfig(p)
		if got := printed(err); err == nil || !strings.Contains(got, want) && !strings.Contains(got,
			"KubeletConfiguration") {
			t.Errorf("%q: got %s, want an error with %q or KubeletConfiguration", content, got, want)
		}
	}
}
