package containermanager_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/kubelet/containermanager"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/test/numascenario"
	"github.com/gantry-project/gantry/test/replay/recorded"
)

// TestReadmissionCountsNothingTwice: whatever was admitted, started and readmitted, what the files
// say stays the same, and the next kubelet can start from them.
func TestReadmissionCountsNothingTwice(t *testing.T) {
	for seed := range int64(200) {
		s := numascenario.Random(seed)
		dir, remove := recorded.TempDir(t, "numa")
		m, live := managers(t, s, dir), map[types.UID]*v1.Pod{}
		for i, step := range s.Steps {
			if step.Add != nil {
				if p := step.Add.MakePod(); m.Admit(p) == nil {
					live[p.UID] = p
					for _, c := range pod.ContainersInOrder(p) {
						m.PreCreateContainer(p, c.Name, &runtimeapi.LinuxContainerResources{})
					}
				}
			} else if !step.Restart {
				delete(live, types.UID(step.Remove))
				m.RemoveStale(func(uid types.UID) bool { return string(uid) == step.Remove })
			}
			var before, after numascenario.Answer
			look(t, dir, &before)
			readmit(m, live)
			look(t, dir, &after)
			if !same(before, after) {
				t.Fatalf("seed %d, step %d: got %s after readmission, want %s", seed, i, asText(after), asText(before))
			}
		}
		remove()
	}
}

func readmit(m *containermanager.Manager, live map[types.UID]*v1.Pod) {
	for _, p := range live {
		m.Readmit(p)
	}
}
