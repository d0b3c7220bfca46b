package containermanager_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/containermanager"
	cpustate "github.com/gantry-project/gantry/internal/kubelet/cpumanager/state"
	memorystate "github.com/gantry-project/gantry/internal/kubelet/memorymanager/state"
	"github.com/gantry-project/gantry/test/numascenario"
	"github.com/gantry-project/gantry/test/replay/recorded"
)

//go:embed testdata/upstream.json.gz
var answers []byte

// TestResourceManagersDecideAsUpstream replays random histories of Pods on random machines: who is
// refused and why, which CPUs and which memory each container has, and what is left, must be what
// kubelet v1.37.2's managers answered (hack/numadiff).
func TestResourceManagersDecideAsUpstream(t *testing.T) {
	// row: DEV-06
	// row: DEV-07
	// row: DEV-08
	scenarios, wrong := 0, 0
	for r := range recorded.All[numascenario.Recorded](t, answers, "NUMA_ANSWERS") {
		scenarios++
		if text := replay(t, r); text != "" {
			if wrong++; wrong <= 5 {
				t.Errorf("seed %d: %s", r.Seed, text)
			}
		}
	}
	t.Logf("%d scenarios, %d with another answer", scenarios, wrong)
	if scenarios < 1000 {
		t.Errorf("got %d scenarios, want 1000 at least", scenarios)
	}
}

// replay is the first difference from the recorded answers; empty when there is none.
func replay(t *testing.T, r numascenario.Recorded) string {
	t.Helper()
	s := numascenario.Random(r.Seed)
	if len(s.Steps) < len(r.Answers) {
		return fmt.Sprintf("got %d steps, want %d: record anew", len(s.Steps), len(r.Answers))
	}
	dir, remove := recorded.TempDir(t, "numa")
	defer remove()
	m := managers(t, s, dir)
	for i, step := range s.Steps[:len(r.Answers)] {
		var got numascenario.Answer
		switch {
		case step.Restart:
			m = managers(t, s, dir)
		case step.Add != nil:
			if refusal := m.Admit(step.Add.MakePod()); refusal != nil {
				got.Reason, got.Message = string(refusal.Code), refusal.Detail
			}
		default:
			m.RemoveStale(func(uid types.UID) bool { return string(uid) == step.Remove })
		}
		look(t, dir, &got)
		if want := r.Answers[i]; !same(got, want) {
			return fmt.Sprintf("step %d (%s) of %s: got %s, want %s", i, asText(step), asText(s.Settings), asText(got),
				asText(want))
		}
	}
	return ""
}

func same(a, b numascenario.Answer) bool {
	for _, x := range []*numascenario.Answer{&a, &b} {
		for _, m := range []*map[string]string{&x.CPUs, &x.Memory, &x.Free} {
			if len(*m) == 0 {
				*m = nil
			}
		}
	}
	return reflect.DeepEqual(a, b)
}

func asText(v any) string {
	raw, _ := json.Marshal(v)
	return string(raw)
}

// managers are ours with the settings of a scenario, over what dir holds.
func managers(t *testing.T, s numascenario.Scenario, dir string) *containermanager.Manager {
	t.Helper()
	m, err := newManagers(s, dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newManagers(s numascenario.Scenario, dir string) (*containermanager.Manager, error) {
	c := &kubeletconfig.KubeletConfiguration{
		CPUManagerPolicy: s.Settings.CPU, CPUManagerPolicyOptions: s.Settings.CPUOptions,
		MemoryManagerPolicy: s.Settings.Memory, TopologyManagerPolicy: s.Settings.Topology,
		TopologyManagerScope: s.Settings.Scope, TopologyManagerPolicyOptions: s.Settings.TopologyOptions,
		ReservedSystemCPUs: s.Settings.ReservedSystemCPUs,
	}
	var total int64
	for node, n := range s.Settings.ReservedMemory {
		total += n
		c.ReservedMemory = append(c.ReservedMemory, kubeletconfig.MemoryReservation{NumaNode: int32(node),
			Limits: v1.ResourceList{v1.ResourceMemory: *resource.NewQuantity(n, resource.BinarySI)}})
	}
	return containermanager.New(containermanager.Config{Kubelet: c, Machine: s.Shape.Machine(), Directory: dir,
		Gate: func(name string) bool {
			return name != "PodLevelResourceManagers" || s.Settings.PodLevel
		},
		NodeReserved: v1.ResourceList{v1.ResourceMemory: *resource.NewQuantity(total, resource.BinarySI),
			v1.ResourceCPU: *resource.NewQuantity(int64(s.Settings.ReservedCPUs), resource.DecimalSI)}})
}

// look reads who has what from the checkpoints: what is on the disk is what counts.
func look(t *testing.T, dir string, a *numascenario.Answer) {
	t.Helper()
	raw, err := os.ReadFile(dir + "/cpu_manager_state")
	if err != nil {
		t.Fatal(err)
	}
	cpus, err := cpustate.Unmarshal(raw, "static")
	if err != nil {
		t.Fatal(err)
	}
	a.Default, a.CPUs = cpus.Default.String(), map[string]string{}
	a.Memory, a.Free = map[string]string{}, map[string]string{}
	for uid, list := range cpus.Assignments {
		for name, set := range list {
			a.CPUs[uid+"/"+name] = set.String()
		}
	}
	if raw, err = os.ReadFile(dir + "/memory_manager_state"); err != nil {
		t.Fatal(err)
	}
	policy := "None"
	if strings.Contains(string(raw), `"policyName":"Static"`) {
		policy = "Static"
	}
	memory, err := memorystate.Unmarshal(raw, policy)
	if err != nil {
		t.Fatal(err)
	}
	for uid, list := range memory.Assignments {
		for name, blocks := range list {
			var texts []string
			for _, b := range blocks {
				texts = append(texts, fmt.Sprint(b.Type, " ", b.Size, " ", b.NUMAAffinity))
			}
			slices.Sort(texts)
			a.Memory[uid+"/"+name] = strings.Join(texts, ", ")
		}
	}
	for id, m := range memory.Machine {
		for kind, table := range m.MemoryMap {
			a.Free[fmt.Sprint(id, "/", kind)] = fmt.Sprint(table.Free, " ", m.NumberOfAssignments, " ", m.Cells)
		}
	}
}
