package eviction

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/cli"
)

const mix = `
node: {capacity: {memory.available: 4Gi, nodefs.available: 20Gi, imagefs.available: 20Gi, pid.available: 1000},
  available: {memory.available: 150Mi}}
pods:
- {name: best-effort, priority: 1000, use: {memory: 300Mi}}
- {name: burstable, requests: {memory: 100Mi}, use: {memory: 400Mi}}
`

// call runs the command with a mix on standard input.
func call(t *testing.T, stdin string, args ...string) (code int, out string) {
	t.Helper()
	var b bytes.Buffer
	io := cli.IO{Out: &b, Err: &b}
	root := cli.Root(io, NewEvictionCommand(io))
	root.SetIn(strings.NewReader(stdin))
	root.SetArgs(append([]string{"eviction"}, args...))
	code = cli.Report(&b, root.ExecuteContext(t.Context()))
	return code, b.String()
}

// At 150Mi of free memory, one document's thresholds wait 90 s and take the Pod of low priority
// first; the other's evict at once, by QoS class.
// row: TOO-05
func TestPresetsGiveDifferentVictims(t *testing.T) {
	for preset, want := range map[string]string{
		"seed-000": "Evicted in 10m0s: default/burstable (1m30s, memory.available), then",
		"seed-001": "Evicted in 10m0s: default/best-effort (0s, memory.available), then",
		"":         "Nobody is evicted in 10m0s.",
	} {
		code, out := call(t, mix, "-f", "-", "--preset", preset)
		if last := out[max(0, strings.LastIndex(out, "victed in")-7):]; code != 0 || !strings.Contains(out, want) {
			t.Errorf("preset %q: got %d %s, want %q", preset, code, last, want)
		}
	}
}

// Thresholds and Pods are changed where the command is called.
// row: TOO-02
func TestSetChangesVictims(t *testing.T) {
	for _, c := range []struct {
		sets []string
		want string
	}{
		{[]string{"evictionHard.memory.available=200Mi"}, "default/burstable (0s, memory.available)."},
		{[]string{"pod/burstable.memory=460Mi"}, "default/burstable (0s, memory.available)."},
		{[]string{"node.memory.available=50Mi"}, "default/burstable (0s, memory.available)."},
		{[]string{"pod/burstable.memory=10Mi"}, "Nobody is evicted in 10m0s."},
		{[]string{"node.memory.available=50Mi", "pod/burstable.priority=2000"},
			"default/best-effort (0s, memory.available)."},
		{[]string{"node.memory.available=50Mi", "pod/burstable.request.memory=500Mi"},
			"default/best-effort (0s, memory.available)."},
		{[]string{"node.memory.available=50Mi", "pod/best-effort.priority=-1"},
			"default/best-effort (0s, memory.available)."},
	} {
		args := []string{"-f", "-"}
		for _, set := range c.sets {
			args = append(args, "--set", set)
		}
		if code, out := call(t, mix, args...); code != 0 || !strings.Contains(out, c.want) {
			t.Errorf("--set %s: got %d\n%s\nwant %q", c.sets, code, out, c.want)
		}
	}
}

func TestFormsOfTheAnswer(t *testing.T) {
	code, out := call(t, mix, "-f", "-", "-o", "json", "--preset", "seed-001", "--duration", "1m")
	var a answer
	if err := json.Unmarshal([]byte(out), &a); code != 0 || err != nil || len(a.Victims) == 0 || len(a.Passes) == 0 ||
		len(a.Forecast.Margins) == 0 {
		t.Errorf("JSON: got %d %v\n%s", code, err, out)
	}
	if code, out := call(t, mix, "-f", "-", "-o", "svg"); code != 0 || !strings.HasPrefix(out, "<svg") {
		t.Errorf("SVG: got %d\n%s", code, out)
	}
	code, out = call(t, mix, "-f", "-")
	for _, want := range []string{"threshold 100Mi (hard): met at about 50Mi less",
		"1. default/burstable at about 50Mi less: takes 400Mi; before best-effort: priority 0 is lower than 1000",
		"a priority of 1000 would put it behind best-effort"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("text: got %d\n%s\nwant %q", code, out, want)
		}
	}
}

func TestBadCalls(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+
		"evictionSoft: {memory.available: 1Gi}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, 2, "-f"},
		{[]string{"-f", "-", "--node", "n"}, 2, "--node"},
		{[]string{"-f", "-", "-o", "png"}, 2, "must be text, json or svg"},
		{[]string{"-f", "-", "--duration", "-1s"}, 2, "--duration"},
		{[]string{"-f", "-", "--ranking", "random"}, 2, "--ranking"},
		{[]string{"-f", "-", "--preset", "none"}, 1, `no preset "none"`},
		{[]string{"-f", "-", "--config", config}, 1, "evictionSoft: grace period must be specified"},
		{[]string{"-f", "-", "--set", "evictionHard.memory.available=lots"}, 1, "evictionHard: "},
		{[]string{"-f", "-", "--set", "evictionHard.cpu=1"}, 1, "unsupported eviction signal cpu"},
		{[]string{"-f", "-", "--set", "evictionHard=1"}, 2, "evictionHard.SIGNAL=VALUE"},
		{[]string{"-f", "-", "--set", "pod/none.memory=1"}, 2, "--set pod/none.memory: "},
		{[]string{"-f", "none.yaml"}, 1, "none.yaml"},
	} {
		if code, out := call(t, mix, c.args...); code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%q: got %d %s, want %d and %q", c.args, code, out, c.code, c.says)
		}
	}
	for document, says := range map[string]string{"": "EOF", mix + "---\n" + mix: "more than one document",
		"node: {}": "stdin: node.capacity: "} {
		if code, out := call(t, document, "-f", "-"); code != 1 || !strings.Contains(out, says) {
			t.Errorf("%q: got %d %s, want 1 and %q", document, code, out, says)
		}
	}
}
