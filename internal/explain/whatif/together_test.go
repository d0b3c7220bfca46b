package whatif

import (
	"context"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// A remedy for one of several Pods that wait together says for how many it is enough, and before a
// lower request that is not stands the one with which all find a node.
func TestRemediesForSeveralPodsOfATemplate(t *testing.T) {
	nodes := []*v1.Node{node("n1", "1000m", "8Gi"), node("n2", "700m", "8Gi")}
	in := In{Pod: asking("p", "2000m", "1Gi"), Snapshot: snapshot.Of(nodes, nil), Plugins: schedulerPlugins(t),
		Together: []*v1.Pod{asking("q", "2000m", "1Gi"), asking("r", "2000m", "1Gi")}}
	found, _ := FindRemedies(context.Background(), in)
	if len(found) < 2 {
		t.Fatalf("got %+v, want a request for all and one for a single Pod", found)
	}
	want := "lower the cpu request of each Pod by 1500m to 500m: all 3 then have a node"
	if found[0].Description != want {
		t.Errorf("got %q first, want %q", found[0].Description, want)
	}
	if len(found[0].Run) == 0 || !strings.Contains(found[0].Run[0], `"cpu":"500m"`) {
		t.Errorf("got commands %q, want a request of 500m", found[0].Run)
	}
	if got := found[1].Description; !strings.HasSuffix(got, "; that is enough for 1 of the 3 that wait") {
		t.Errorf("got %q, want that it is enough for 1 of 3", got)
	}
	in.Together = nil
	alone, _ := FindRemedies(context.Background(), in)
	if len(alone) == 0 || strings.Contains(alone[0].Description, "that wait") ||
		strings.Contains(alone[0].Description, "each") {
		t.Errorf("got %+v for one Pod, want nothing about others", alone)
	}
}
