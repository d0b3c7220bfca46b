package testcluster_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/trace"
	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/testcluster"
)

// The trace of a Pod goes from its write into the store to Running: it has the steps of the API
// server, the scheduler, the kubelet and the container runtime, each with its time, those of one
// participant in their order.
//
// row: OPS-13
func TestTraceNamesEachParticipant(t *testing.T) {
	t.Parallel()
	c := testcluster.Start(t)
	ctx := within(t, 2*time.Minute)
	create(t, c, pod("web", "anything"))
	c.WaitPod(ctx, "default", "web", phase(corev1.PodRunning))
	text := ""
	expect.EventuallyNoError(t, "the trace as far as Running", func() error {
		list := trace.PodTraces(c.Journal("default", "web"))
		if len(list) != 1 {
			return fmt.Errorf("got %d traces, want one", len(list))
		}
		var b strings.Builder
		if err := list[0].WriteTimeline(&b); err != nil {
			return err
		}
		text = b.String()
		for by, steps := range map[string][]string{
			"apiserver": {`create by .* at revision \d+`},
			"scheduler": {`queued: active`, `attempt 1: node-1 chosen`, `bound to node-1`},
			"kubelet": {`received by the kubelet from source api`, `CRI RunPodSandbox took \S+`,
				`CRI StartContainer app took \S+`, `container app started`, `phase Running`},
		} {
			rest := text
			for _, step := range steps {
				found := regexp.MustCompile(`(?m)^ +\+\d+\.\d{3}s +` + by + `\S* +` + step).FindStringIndex(rest)
				if found == nil {
					return fmt.Errorf("%s: got no line %q, or not after the one before, in\n%s", by, step, text)
				}
				rest = rest[found[1]:]
			}
		}
		return nil
	})
	if !strings.Contains(text, "bound → running") {
		t.Errorf("got a trace that does not say where the time went:\n%s", text)
	}
}
