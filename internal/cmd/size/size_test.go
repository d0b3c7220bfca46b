package size

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gantry-project/gantry/internal/cli"
	kubeconfig "github.com/gantry-project/gantry/internal/kubelet/config"
	kubeletresource "github.com/gantry-project/gantry/internal/kubelet/resource"
)

// call runs the command with usage on standard input.
func call(t *testing.T, stdin string, args ...string) (code int, out string) {
	t.Helper()
	var b bytes.Buffer
	io := cli.IO{Out: &b, Err: &b}
	root := cli.Root(io, New(io))
	root.SetIn(strings.NewReader(stdin))
	root.SetArgs(append([]string{"size"}, args...))
	code = cli.Report(&b, root.ExecuteContext(t.Context()))
	return code, b.String()
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubelet.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What is printed is a KubeletConfiguration that the kubelet loads, with all its thresholds, and
// with the allocatable that was promised.
// row: TOO-11
// row: TOO-12
func TestTheConfigurationLoads(t *testing.T) {
	for _, memory := range []string{"4Gi", "16Gi", "64Gi", "256Gi"} {
		args := []string{"--cpu", "4", "--memory", memory, "--disk", "100Gi"}
		code, out := call(t, "", append(args, "-o", "yaml")...)
		if code != 0 {
			t.Fatalf("%s: got %d %s", memory, code, out)
		}
		l, err := kubeconfig.Load(kubeconfig.Sources{File: file(t, out)})
		if err != nil {
			t.Fatalf("%s: got %v, want it to load:\n%s", memory, err, out)
		}
		c, err := kubeconfig.EvictionConfig(l.Config, l.DefaultEvictionHard, "")
		if err != nil || len(c.Thresholds) < 8 || l.DefaultEvictionHard || len(l.Inert) > 0 {
			t.Errorf("%s: got %d thresholds, %v, without effect %v", memory, len(c.Thresholds), err, l.Inert)
		}
		var a answer
		if _, out := call(t, "", append(args, "-o", "json")...); json.Unmarshal([]byte(out), &a) != nil {
			t.Fatalf("no JSON: %s", out)
		}
		capacity := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"),
			v1.ResourceMemory:           resource.MustParse(memory),
			v1.ResourceEphemeralStorage: resource.MustParse("100Gi")}
		left := kubeletresource.Allocatable(capacity, kubeconfig.Reserved(l.Config, capacity))
		for name, want := range a.Node.Allocatable {
			if got := left[name]; got.Cmp(want) != 0 {
				t.Errorf("%s: %s: the kubelet leaves %s, %s were promised", memory, name, got.String(), want.String())
			}
		}
	}
}

// row: EVC-35
func TestConfigurationsAtBothExtremesAreWarnedOf(t *testing.T) {
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	for text, want := range map[string][]string{
		"kubeReserved: {memory: 10Mi, cpu: 1m}\n": {"warning: kubeReserved and systemReserved keep 10Mi of memory, " +
			"too little"},
		"systemReserved: {memory: 12Gi, cpu: \"3\"}\n": {
			"warning: kubeReserved and systemReserved keep 12Gi of memory, too much", "3 of cpu, too much"},
	} {
		code, out := call(t, "", "--cpu", "4", "--memory", "16Gi", "--config", file(t, head+text))
		for _, w := range want {
			if code != 0 || !strings.Contains(out, w) {
				t.Errorf("%s: got %d\n%s\nwant %q", text, code, out, w)
			}
		}
	}
	_, advised := call(t, "", "--cpu", "4", "--memory", "16Gi", "-o", "yaml")
	if code, out := call(t, "", "--cpu", "4", "--memory", "16Gi", "--config", file(t, advised)); code != 0 ||
		strings.Contains(out, "warning") {
		t.Errorf("its own advice: got %d\n%s\nwant no warning", code, out)
	}
}

// row: TOO-10
func TestUsageBecomesRequests(t *testing.T) {
	text := "container,cpu,memory\n" + strings.Repeat("a,100m,100Mi\n", 180) + strings.Repeat("a,1,500Mi\n", 20)
	code, out := call(t, text, "--usage", "-")
	for _, want := range []string{"190m", "140Mi", "1000m", "500Mi", "608Mi", "1.22",
		"warning: /a: cpu: its 95th percentile"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("got %d\n%s\nwant %q", code, out, want)
		}
	}
}

func TestBadCalls(t *testing.T) {
	sized := []string{"--cpu", "4", "--memory", "16Gi"}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 2, "--usage"}, {[]string{"--cpu", "4"}, 2, "--memory"}, {[]string{"--cpu", "x", "--memory", "1Gi"}, 2,
			`--cpu "x"`},
		{[]string{"--cpu", "1m", "--memory", "1Gi"}, 2, "--cpu: "}, {[]string{"--cpu", "1", "--memory", "1"}, 2,
			"--memory: "},
		{append([]string{"--disk", "1"}, sized...), 2, "--disk: "}, {append([]string{"--node", "n"}, sized...), 2,
			"--node"},
		{[]string{"--usage", "-", "--config", "x"}, 2, "--config"}, {append([]string{"-o", "xml"}, sized...), 2, "xml"},
		{[]string{"--usage", "-", "-o", "yaml"}, 2, "yaml"}, {[]string{"--usage", "-", "--max-ratio", "0"}, 2,
			"--max-ratio"},
		{[]string{"--usage", "-", "--memory-headroom", "0.5"}, 2, "--memory-headroom"},
		{[]string{"--usage", "-", "--cpu-limit-ratio", "0.5"}, 2, "--cpu-limit-ratio"},
		{[]string{"--metrics-api", "--every", "0s"}, 2, "--every"}, {[]string{"--usage", "-"}, 1, "-: is empty"},
		{[]string{"--usage", "none.csv"}, 1, "none.csv"},
		{append([]string{"--config", file(t, "kind: Pod")}, sized...), 1, "Pod"},
	} {
		if code, out := call(t, "", c.args...); code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%q: got %d %s, want %d and %q", c.args, code, out, c.code, c.says)
		}
	}
}

// The picture has each container with its request, and the parts of the node with what is reserved.
func TestThePictureShowsRequestsAndReservations(t *testing.T) {
	const usage = "container,cpu,memory\nweb,0.5,100Mi\nweb,0.7,150Mi\n"
	code, out := call(t, usage, "--usage", "-", "--cpu", "4", "--memory", "16Gi", "-o", "svg")
	if code != 0 || !strings.HasPrefix(out, "<svg ") {
		t.Fatalf("got %d %s, want a picture", code, out)
	}
	for _, want := range []string{"web", "cpu: request 700m", "memory: request 150Mi, limit ", "the node&#39;s cpu: 4",
		"kubeReserved ", "systemReserved ", `class="eviction"`} {
		if !strings.Contains(out, want) {
			t.Errorf("the picture lacks %q, want it:\n%s", want, out)
		}
	}
}
