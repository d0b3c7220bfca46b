package scheduler

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

// The journal says of an event that did not wake a Pod which plugin saw no help in it, once for
// each kind, and the Pod is not tried for it.
//
// row: SCH-30
func TestIgnoredEventIsAFact(t *testing.T) {
	t.Parallel()
	c := start(t, nil, aNode("n1", "1"))
	c.create(aPod("web", "2"))
	c.await("web", "refused", isUnschedulable)
	for _, name := range []string{"n2", "n3"} { // too small as well
		if _, err := c.CoreV1().Nodes().Create(t.Context(), aNode(name, "1"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.create(aPod("after", "1", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{v1.LabelHostname: "n3"} }))
	c.bound("after") // so that events of both nodes have arrived
	ignored, results := 0, 0
	for _, f := range c.notes.factsOf("web") {
		switch f := f.(type) {
		case journal.Queued:
			if f.Ignored && f.Cause == "NodeAdd" && f.By == "NodeResourcesFit" && f.Object == "node/n2" {
				ignored++
			}
		case journal.Ruled:
			results++
		}
	}
	if ignored != 1 || results != 1 {
		t.Errorf("%d facts that the first node does not help, %d results: %v, want 1, 1", ignored, results,
			c.notes.factsOf("web"))
	}
}
