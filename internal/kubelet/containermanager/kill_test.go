package containermanager_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/cpuset"

	"github.com/gantry-project/gantry/internal/kubelet/containermanager"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/test/numascenario"
	"github.com/gantry-project/gantry/test/replay/recorded"
)

var stateFiles = []string{"cpu_manager_state", "memory_manager_state"}

func readState(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, name := range stateFiles {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = raw
	}
	return out
}

func writeState(t *testing.T, dir string, state map[string][]byte) {
	t.Helper()
	for name, raw := range state {
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// kept are CPUs that started containers have alone, by Pod and container.
type kept map[string]string

// start makes the containers of a Pod and notes what they have.
func (k kept) start(m *containermanager.Manager, p *v1.Pod) {
	for _, c := range pod.ContainersInOrder(p) {
		r := &runtimeapi.LinuxContainerResources{}
		m.PreCreateContainer(p, c.Name, r)
		if m.HasExclusiveCPUs(p, c) {
			k[string(p.UID)+"/"+c.Name] = r.CpusetCpus
		}
	}
}

// check compares with what a kubelet says that started from the files.
func (k kept) check(t *testing.T, m *containermanager.Manager, live map[types.UID]*v1.Pod) (faults []string) {
	t.Helper()
	given := map[types.UID]cpuset.CPUSet{}
	for _, p := range live {
		for _, c := range p.Spec.Containers { // init containers' CPUs are used again
			if !m.HasExclusiveCPUs(p, &c) {
				continue
			}
			cpus := m.CPU.GetCPUAffinity(p.UID, c.Name)
			if was, started := k[string(p.UID)+"/"+c.Name]; started && was != cpus.String() {
				faults = append(faults, string(p.UID)+"/"+c.Name+" had "+was+", has "+cpus.String())
			}
			given[p.UID] = given[p.UID].Union(cpus)
			if whole := m.CPU.GetPodCPUs(p.UID); !whole.IsEmpty() && !cpus.IsSubsetOf(whole) {
				faults = append(faults, string(p.UID)+" was given "+whole.String()+" as a whole, and "+c.Name+" has "+
					cpus.String())
			}
		}
	}
	for a, x := range given {
		for b, y := range given {
			if both := x.Intersection(y); a < b && !both.IsEmpty() {
				faults = append(faults, string(a)+" and "+string(b)+" both have "+both.String())
			}
		}
	}
	slices.Sort(faults)
	return faults
}

// restart has the next kubelet start from files, and compares what it says with what containers
// have.
// startable is false when it does not start.
func (k kept) restart(t *testing.T, s numascenario.Scenario, files map[string][]byte,
	live map[types.UID]*v1.Pod) (startable bool, faults []string) {
	t.Helper()
	dir, remove := recorded.TempDir(t, "numa")
	defer remove()
	writeState(t, dir, files)
	next, err := newManagers(s, dir)
	if err != nil {
		return false, nil
	}
	readmit(next, live)
	next.RemoveStale(func(uid types.UID) bool { return live[uid] == nil })
	return true, k.check(t, next, live)
}

// The kubelet is killed at every step, also between the files of one admission: the next one starts
// from what lies on the disk, no CPU is given twice, and no container that runs loses its own. From
// some states of a memory manager at rest no kubelet starts, upstream's neither (hack/numadiff):
// there a history ends.
func TestKilledBetweenTheFiles(t *testing.T) {
	exclusive, restarts, ended, whole := 0, 0, 0, 0
	for seed := range int64(120) {
		s := numascenario.Random(seed)
		dir, remove := recorded.TempDir(t, "numa")
		m, live, k := managers(t, s, dir), map[types.UID]*v1.Pod{}, kept{}
		for i, step := range s.Steps {
			before := readState(t, dir)
			switch {
			case step.Restart:
				m = managers(t, s, dir)
				readmit(m, live)
			case step.Add != nil:
				if p := step.Add.MakePod(); m.Admit(p) == nil {
					live[p.UID] = p
				}
			default:
				delete(live, types.UID(step.Remove))
				m.RemoveStale(func(uid types.UID) bool { return string(uid) == step.Remove })
			}
			states := cuts(before, readState(t, dir))
			if startable, _ := k.restart(t, s, states[1], live); !startable {
				ended++
				break
			}
			for _, found := range states { // the kubelet is killed with this on the disk
				startable, faults := k.restart(t, s, found, live)
				if !startable || len(faults) > 0 {
					t.Fatalf("seed %d, step %d (%s): starts: %t, %s", seed, i, asText(step), startable,
						strings.Join(faults, "; "))
				}
				restarts++
			}
			if step.Add != nil {
				if p := live[step.Add.MakePod().UID]; p != nil {
					k.start(m, p)
					if !m.CPU.GetPodCPUs(p.UID).IsEmpty() || len(m.Memory.GetPodMemory(p.UID)) > 0 {
						whole++
					}
				}
			}
		}
		exclusive += len(k)
		remove()
	}
	t.Logf("%d containers with CPUs of their own, %d Pods as a whole, %d restarts, %d histories ended", exclusive,
		whole, restarts, ended)
	if exclusive < 100 || restarts < 1000 || ended > 20 || whole < 5 {
		t.Errorf("got %d containers with CPUs of their own, %d Pods as a whole, %d restarts and %d histories that "+
			"ended, want 100, 5, 1000 and 20 at most", exclusive, whole, restarts, ended)
	}
}

// cuts are the states that lie on the disk while one becomes the other, file by file.
func cuts(before, after map[string][]byte) []map[string][]byte {
	out := []map[string][]byte{before, after}
	for _, name := range stateFiles {
		if string(before[name]) != string(after[name]) {
			mixed := map[string][]byte{}
			for _, other := range stateFiles {
				mixed[other] = before[other]
			}
			mixed[name] = after[name]
			out = append(out, mixed)
		}
	}
	return out
}
