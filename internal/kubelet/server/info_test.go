package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/gantry-project/gantry/test/expect"
)

// row: KAP-02
func TestHealthz(t *testing.T) {
	w := newTestServer(t)
	if code, body := w.get("/healthz"); code != 200 || body != "ok" {
		t.Errorf("got %d %s, want code 200 and body ok", code, body)
	}
	text := "sync Loop took longer than expected"
	w.unhealthy.Store(&text)
	if code, body := w.get("/healthz"); code != 500 || !strings.Contains(body,
		"[+]ping ok\n[+]log ok\n[-]syncloop failed: reason withheld\nhealthz check failed") {
		t.Errorf(`got %d %s, want code 500 and body with "[+]ping ok [+]log ok [-]syncloop failed: reason withhe…"`,
			code, body)
	}
	if code, body := w.get("/healthz/syncloop"); code != 500 || !strings.Contains(body, text) {
		t.Errorf("got %d %s, want code 500 and body with %v", code, body, text)
	}
	for _, check := range []string{"ping", "log"} {
		if code, body := w.get("/healthz/" + check); code != 200 || body != "ok" {
			t.Errorf("%s: got %d %s, want code 200 and body ok", check, code, body)
		}
	}
}

// row: KAP-17
func TestPods(t *testing.T) {
	w := newTestServer(t)
	w.run("web", map[string]string{"app": "run", "waiting": "", "ended": "exit 0"})
	expect.EventuallyNoError(t, "ended has ended", func() error {
		left, err := w.cri.Runtime().ListContainers(t.Context(), &runtimeapi.ContainerFilter{
			State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_EXITED}})
		if err == nil && len(left) != 1 {
			err = fmt.Errorf("%d containers have ended, want 1", len(left))
		}
		return err
	})
	list := func(path string) v1.PodList {
		code, body := w.get(path)
		var l v1.PodList
		if err := json.Unmarshal([]byte(body), &l); code != 200 || err != nil || l.Kind != "PodList" {
			t.Fatalf("%s: got %d %v %s, want code 200, no error and Kind PodList", path, code, err, body)
		}
		return l
	}
	if l := list("/pods"); len(l.Items) != 1 || l.Items[0].Name != "web" || len(l.Items[0].Spec.Containers) != 3 {
		t.Errorf("/pods: %+v", l.Items)
	}
	if l := list("/runningpods/"); len(l.Items) != 1 || l.Items[0].UID != "web-uid" ||
		len(l.Items[0].Spec.Containers) != 1 || l.Items[0].Spec.Containers[0].Name != "app" {
		t.Errorf("/runningpods/: %+v", l.Items)
	}
}

// row: KSL-02
func TestConfigz(t *testing.T) {
	w := newTestServer(t)
	if code, body := w.get("/configz"); code != 200 || body != `{"kubeletconfig":{"kind":"KubeletConfiguration"}}` {
		t.Errorf(`got %d %s, want code 200 and body '{"kubeletconfig":{"kind":"KubeletConfiguration"}}'`, code, body)
	}
}

// row: KAP-03
// row: OPS-11
func TestMetrics(t *testing.T) {
	w := newTestServer(t)
	code, body := w.get("/metrics")
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(strings.NewReader(body + "\n"))
	if code != 200 || err != nil || families["go_goroutines"] == nil {
		t.Errorf("%d %v, %d families", code, err, len(families))
	}
}

// row: KAP-04
func TestSummary(t *testing.T) {
	w := newTestServer(t)
	code, body := w.get("/stats/summary")
	var s statsapi.Summary
	if err := json.Unmarshal([]byte(body), &s); code != 200 || err != nil || s.Node.NodeName != "node-1" ||
		s.Pods == nil || w.usage.brief {
		t.Errorf("got %v, %v, %v, want code 200, no error, NodeName node-1 and brief false", code, err, body)
	}
	if code, _ := w.get("/stats/summary?only_cpu_and_memory=true"); code != 200 || !w.usage.brief {
		t.Errorf("only_cpu_and_memory: got code %d and brief %v, want 200 and true", code, w.usage.brief)
	}
}
