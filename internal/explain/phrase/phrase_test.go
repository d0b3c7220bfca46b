package phrase_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gantry-project/gantry/internal/explain/phrase"
)

// What the seeds quote, and what kubectl describe shows most often: each phrase leads to a
// component, a rule and something to do.
//
// row: OPS-04
func TestPhrases(t *testing.T) {
	for _, c := range []struct{ text, component, rule, fix string }{
		{"0/12 nodes are available", "scheduler", "Filter", "gantry why pod/NAME"},
		{`Back-off pulling image "nginx:nope"`, "kubelet", "images", "registry"},
		{"Liveness probe failed: HTTP probe failed with statuscode: 500", "kubelet", "failureThreshold",
			"startupProbe"},
		{"Evicted, the node had condition: MemoryPressure", "kubelet", "node pressure", "requests"},
		{"The node had condition: [DiskPressure]. ", "kubelet", "node pressure", "requests"},
		{"Back-off restarting failed container app in pod web_default(1)", "kubelet", "restart", "--previous"},
		{`Error: secret "db" not found`, "kubelet", "Secret", "optional: true"},
		{"OOMKilled", "kernel", "memory", "limits.memory"},
		{`Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network`, "container runtime",
			"RunPodSandbox", "network"},
		{"Cannot evict pod as it would violate the pod's disruption budget.", "API server", "PodDisruptionBudget",
			"budget"},
		{`pods "a" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true`, "API server",
			"PodSecurity", "securityContext"},
		{"Preempted by pod 1234-5678 on node n1", "scheduler", "DefaultPreemption", "priority"},
	} {
		list := phrase.Lookup(c.text)
		if len(list) == 0 {
			t.Errorf("%s: nothing is known of it", c.text)
			continue
		}
		if m := list[0]; m.Component != c.component || !strings.Contains(m.Rule, c.rule) || !strings.Contains(m.Fix,
			c.fix) || !strings.Contains(c.text, m.Part) {
			t.Errorf("%s: got %+v, want Component %v, Rule with %v, Fix with %v and text with %v", c.text, m,
				c.component, c.rule, c.fix, m.Part)
		}
	}
}

// A line that names several refusals is taken apart, in its order.
func TestPartsOfAPhrase(t *testing.T) {
	list := phrase.Lookup("0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {gpu: true}, " +
		"1 node(s) were unschedulable. preemption: 0/3 nodes are available: 1 No preemption victims found for " +
		"incoming pod.")
	var rules []string
	for _, m := range list {
		rule, _, _ := strings.Cut(m.Rule, ":")
		rules = append(rules, rule)
	}
	if got, want := strings.Join(rules, " "),
		"Filter NodeResourcesFit TaintToleration NodeUnschedulable DefaultPreemption"; got != want {
		t.Errorf("rules %s, want %s", got, want)
	}
	var b bytes.Buffer
	if err := phrase.Write(&b, list[1:2]); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(b.String(), "Insufficient cpu\n  said by: scheduler\n  rule:    NodeResourcesFit") {
		t.Errorf(`got %v, want b beginning with "Insufficient cpu   said by: scheduler   rule:    NodeR…"`, b.String())
	}
	if got := phrase.Lookup("all is well"); len(got) != 0 {
		t.Errorf("got %+v, want no got", got)
	}
}
