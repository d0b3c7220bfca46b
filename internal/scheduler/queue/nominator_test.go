package queue_test

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"

	"github.com/gantry-project/gantry/internal/scheduler/queue"
	"github.com/gantry-project/gantry/internal/scheduler/snapshot"
)

// A caller that reads nominations only where their change is reported has them all, in order of
// UID, and no list that was handed out ever changes.
func TestNominationChangesAreReported(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := queue.NewNominator()
		want := map[string]map[types.UID]framework.PodInfo{}
		read, clock := map[string][]framework.PodInfo{}, int64(0)
		type handed struct{ list, was []framework.PodInfo }
		var out []handed
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			info, err := snapshot.NewPodInfo(pod(fmt.Sprintf("p%d", rapid.IntRange(0, 5).Draw(t, "pod")), 1))
			if err != nil {
				t.Fatal(err)
			}
			uid := info.GetPod().UID
			node := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "node")
			for _, pods := range want {
				delete(pods, uid)
			}
			if node != "" {
				if want[node] == nil {
					want[node] = map[types.UID]framework.PodInfo{}
				}
				want[node][uid] = info
				n.AddNominatedPod(info, node)
			} else {
				n.DeleteNominatedPodIfExists(uid)
			}
			if n.NominatedNodeName(uid) != node {
				t.Fatalf("%s is promised %q, want %q", uid, n.NominatedNodeName(uid), node)
			}
			if rapid.Bool().Draw(t, "look?") {
				nodes, now, known := n.Since(clock)
				if !known {
					t.Fatal("a short history was forgotten")
				}
				clock = now
				for _, node := range nodes {
					read[node] = n.NominatedPodsForNode(node)
					out = append(out, handed{read[node], slices.Clone(read[node])})
				}
				var names []string
				for node, pods := range want {
					var list []framework.PodInfo
					for _, p := range pods {
						list = append(list, p)
					}
					slices.SortFunc(list, func(a, b framework.PodInfo) int {
						return int(a.GetPod().UID[1]) - int(b.GetPod().UID[1])
					})
					if !slices.Equal(list, read[node]) {
						t.Fatalf("of %s it was read %v, want %v", node, read[node], list)
					}
					if len(list) > 0 {
						names = append(names, node)
					}
				}
				if slices.Sort(names); !slices.Equal(names, n.NominatedNodes()) || n.Empty() != (len(names) == 0) {
					t.Fatalf("nodes %v, want %v", n.NominatedNodes(), names)
				}
			}
		}
		for _, h := range out {
			if !slices.Equal(h.list, h.was) {
				t.Fatal("a list that was handed out changed")
			}
		}
	})
}
