package cniplugin_test

import (
	"os/exec"
	"strings"
	"testing"
)

func TestBandwidth(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "10.199.0.0/24")
	p := w.pod()
	limits := map[string]any{"ingressRate": 8_000_000, "ingressBurst": 4294967295, "egressRate": 16_000_000,
		"egressBurst": 1_600_000}
	if _, err := p.cni("ADD", map[string]any{"runtimeConfig": map[string]any{"bandwidth": limits}}); err != nil {
		t.Fatal(err)
	}
	free := w.joinedPod()
	shown := func(n interface{ Path() string }) (out string) {
		raw, err := exec.Command("nsenter", "--net="+n.Path(), "tc", "qdisc", "show").CombinedOutput()
		if err != nil {
			t.Fatalf("tc: %v %s, want no error", err, raw)
		}
		return string(raw)
	}
	if out := shown(w.host); strings.Count(out, "tbf") != 1 || !strings.Contains(out, "rate 8Mbit") {
		t.Errorf("on the host, one link is limited:\n%s", out)
	}
	if out := shown(p.ns); !strings.Contains(out, "rate 16Mbit") {
		t.Errorf("in the Pod:\n%s", out)
	}
	if out := shown(free.ns); strings.Contains(out, "tbf") {
		t.Errorf("a Pod without annotations is limited:\n%s", out)
	}
}
