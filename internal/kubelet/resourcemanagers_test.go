package kubelet_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet"
	"github.com/gantry-project/gantry/internal/kubelet/machine/machinetest"
	"github.com/gantry-project/gantry/internal/linux/mount"
)

// twoNodes is a machine of two NUMA nodes with four CPUs and 2 GiB each.
var twoNodes = machinetest.Shape{Sockets: 2, NodesPerSocket: 1, CoresPerNode: 4, Threads: 1, MemoryPerNode: 2 << 30}

// pinningConfig is a configuration in which CPU and memory of NUMA nodes are given away.
func pinningConfig() *kubeletconfig.KubeletConfiguration {
	none := ""
	return &kubeletconfig.KubeletConfiguration{ResolverConfig: &none,
		CPUManagerPolicy: "static", MemoryManagerPolicy: "Static", TopologyManagerPolicy: "single-numa-node",
		TopologyManagerScope: "container", SystemReserved: map[string]string{"cpu": "1", "memory": "256Mi"},
		ReservedMemory: []kubeletconfig.MemoryReservation{
			{NumaNode: 0, Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("256Mi")}}},
	}
}

// restartPinning begins the kubelet anew on a machine of two NUMA nodes.
func (r *rig) restartPinning(change func(*kubeletconfig.KubeletConfiguration)) {
	r.t.Helper()
	r.stop()
	ctx := context.Background()
	n, err := r.api.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	n.Status.Allocatable[v1.ResourceCPU] = resource.MustParse("7")
	n.Status.Capacity[v1.ResourceCPU] = resource.MustParse("8")
	if _, err := r.api.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	info := twoNodes.Machine()
	r.with = func(o *kubelet.Options) {
		o.Config, o.Dependencies.Machine = pinningConfig(), &info
		if change != nil {
			change(o.Config)
		}
	}
	r.start()
}

// cpuset is what the runtime was told of a running container: CPUs and memory nodes.
func (r *rig) cpuset(uid types.UID, container string) string {
	r.t.Helper()
	list, err := r.cri.Runtime().ListContainers(context.Background(), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, c := range list {
		if c.Labels["io.kubernetes.pod.uid"] == string(uid) && c.Labels["io.kubernetes.container.name"] == container {
			s, err := r.cri.Runtime().ContainerStatus(context.Background(), c.Id, false)
			if err != nil {
				r.t.Fatal(err)
			}
			l := s.Status.Resources.Linux
			return l.CpusetCpus + " " + l.CpusetMems
		}
	}
	return "not there"
}

func guaranteed(name, cpu, memory string) *v1.Pod {
	return pod(name, asking(scriptContainer("c", "serve"), amounts(cpu, memory), amounts(cpu, memory)))
}

// TestExclusiveCPUs: a Guaranteed Pod with whole CPUs gets them from one NUMA node with its memory,
// containers that run already leave them, and have them back when the Pod is gone.
func TestExclusiveCPUs(t *testing.T) {
	runTest(t, func(r *rig) {
		r.restartPinning(nil)
		r.create(pod("shared", scriptContainer("c", "serve")))
		want := func(uid types.UID, cpus string) {
			t.Helper()
			if got := r.cpuset(uid, "c"); got != cpus {
				t.Errorf("%s: got CPUs and memory nodes %q, want %q", uid, got, cpus)
			}
		}
		want("uid-shared", "0-7 ")
		r.create(guaranteed("two", "2", "256Mi"))
		r.phase("two", v1.PodRunning)
		// row: DEV-06
		// row: QOS-06
		want("uid-two", "1-2 0")
		want("uid-shared", "0,3-7 ")
		r.create(guaranteed("half", "500m", "64Mi")) // not whole: the shared pool
		// row: DEV-08
		want("uid-half", "0,3-7 0")
		if given := strings.Join(r.groups.given["poduid-two"], " "); !strings.Contains(given, "quota=-1") {
			t.Errorf("cgroup of the Pod with exclusive CPUs: got %q, want no quota", given)
		}

		r.create(guaranteed("four", "4", "256Mi"))
		want("uid-four", "4-7 1")
		r.create(guaranteed("three", "3", "64Mi")) // 3 are nowhere on one node
		p := r.phase("three", v1.PodFailed)
		// row: DEV-07
		if p.Status.Reason != "TopologyAffinityError" ||
			p.Status.Message != "Pod was rejected: Resources cannot be allocated with Topology locality" {
			t.Errorf("a Pod that fits no NUMA node: got %s: %s, want TopologyAffinityError", p.Status.Reason,
				p.Status.Message)
		}
		want("uid-shared", "0,3 ")

		r.stop() // what was given outlives the kubelet
		r.start()
		want("uid-two", "1-2 0")
		want("uid-four", "4-7 1")
		r.delete("four", 1)
		r.advance(20e9)
		want("uid-shared", "0,3-7 ")
		if got := r.k.ContainerManager().CPU.GetExclusiveCPUs("uid-two", "c").String(); got != "1-2" {
			t.Errorf("exclusive CPUs of the Pod that stays: got %s, want 1-2", got)
		}
	})
}

// TestARefusedPodGivesBack: CPUs that a Pod was given are free again when another check refuses it.
//
// row: DEV-06
func TestARefusedPodGivesBack(t *testing.T) {
	runTest(t, func(r *rig) {
		r.restartPinning(nil)
		p := guaranteed("elsewhere", "2", "64Mi")
		p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		r.create(p)
		if got := r.phase("elsewhere", v1.PodFailed).Status.Reason; got != "NodeAffinity" {
			t.Errorf("reason: got %s, want NodeAffinity", got)
		}
		cm := r.k.ContainerManager()
		if got := cm.CPU.GetCPUAffinity("", "").String(); got != "0-7" {
			t.Errorf("shared CPUs: got %s, want 0-7", got)
		}
		if got := cm.Memory.GetMemory("uid-elsewhere", "c"); got != nil {
			t.Errorf("memory of the refused Pod: got %v, want none", got)
		}
	})
}

// TestResizeBesideExclusiveCPUs: a resize that would change exclusive CPUs is infeasible.
//
// row: DEV-06
func TestResizeBesideExclusiveCPUs(t *testing.T) {
	runTest(t, func(r *rig) {
		r.restartPinning(nil)
		r.create(guaranteed("two", "2", "256Mi"))
		r.phase("two", v1.PodRunning)
		r.resize("two", "c", amounts("3", "256Mi"), amounts("3", "256Mi"))
		c := condition(r.get("two"), v1.PodResizePending)
		if c == nil || c.Reason != "Infeasible" || c.Message !=
			`Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"` {
			t.Errorf("condition: got %v, want Infeasible", c)
		}
		if got := r.cpuset("uid-two", "c"); got != "1-2 0" {
			t.Errorf("CPUs: got %s, want 1-2 0", got)
		}
	})
}

// TestStartIsRefused: what cannot be done on this machine, or with what an earlier kubelet kept, is
// refused at the start with the field and what to do.
func TestStartIsRefused(t *testing.T) {
	runTest(t, func(r *rig) {
		r.restartPinning(nil)
		r.create(guaranteed("two", "2", "256Mi"))
		r.stop()
		defer r.start()
		kept := filepath.Join(r.root, "kubelet", "cpu_manager_state")
		good, err := os.ReadFile(kept)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name   string
			change func(*kubeletconfig.KubeletConfiguration)
			state  string
			want   string
		}{
			{"another policy", func(c *kubeletconfig.KubeletConfiguration) { c.CPUManagerPolicy = "none" },
				string(good),
				`cpuManagerPolicy or cpuManagerPolicyOptions: could not restore state from checkpoint: configured ` +
					`policy ` +
					`"none" differs from state checkpoint policy "static", please drain this node and delete the CPU ` +
					`manager ` +
					`checkpoint file "` + kept + `" before restarting Kubelet`},
			{"a policy that nobody knows",
				func(c *kubeletconfig.KubeletConfiguration) { c.CPUManagerPolicy = "strict" },
				string(good), `cpuManagerPolicy or cpuManagerPolicyOptions: unknown policy: "strict"`},
			{"an alpha option", func(c *kubeletconfig.KubeletConfiguration) {
				c.CPUManagerPolicyOptions = map[string]string{"align-by-socket": "true"}
			}, string(good),
				`new static policy error: CPU Manager Policy Alpha-level Options not enabled, but option ` +
					`"align-by-socket" provided`},
			{"nothing reserved", func(c *kubeletconfig.KubeletConfiguration) { delete(c.SystemReserved, "cpu") },
				string(good),
				"the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero"},
			{"more reserved than before", func(c *kubeletconfig.KubeletConfiguration) { c.SystemReserved["cpu"] = "3" },
				string(good), `not all reserved cpus: "0-2" are present in defaultCpuSet: "0,3-7"`},
			{"reserved memory that is not what the node keeps", func(c *kubeletconfig.KubeletConfiguration) {
				c.SystemReserved["memory"] = "300Mi"
			}, string(good),
				`memoryManagerPolicy or reservedMemory: the total amount "256Mi" of type "memory" is not ` +
					`equal to the value "300Mi" determined by Node Allocatable feature`},
			{"a changed checkpoint", func(*kubeletconfig.KubeletConfiguration) {},
				strings.Replace(string(good), "0,3-7", "0,2-7", 2),
				"could not load v4 checkpoint: checkpoint is corrupted"},
			{"a scope that nobody knows",
				func(c *kubeletconfig.KubeletConfiguration) { c.TopologyManagerScope = "node" },
				string(good), `topologyManagerPolicyOptions: unknown scope: "node"`},
		} {
			if err := os.WriteFile(kept, []byte(c.state), 0o600); err != nil {
				t.Fatal(err)
			}
			o := kubelet.Options{Client: r.api, NodeName: "n1", Runtime: r.cri.Runtime(), Images: r.cri.Images(),
				RootDir: filepath.Join(r.root, "kubelet"), LogDir: r.root,
				Dependencies: kubelet.Dependencies{Cgroups: r.groups,
					Mounts: mount.DirMounter{}}}
			r.with(&o)
			c.change(o.Config)
			if _, err := kubelet.New(o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got error %v, want one with %q", c.name, err, c.want)
			}
		}
		if err := os.WriteFile(kept, good, 0o600); err != nil {
			t.Fatal(err)
		}
	})
}
