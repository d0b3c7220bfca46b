package podresources

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// own are CPUs and memory of Pods as a whole and of the container "own".
type own struct{}

func (own) PodCPUs(p *v1.Pod) []int64 {
	if p.Name == "whole" {
		return []int64{2, 3, 4}
	}
	return nil
}

func (own) ContainerCPUs(p *v1.Pod, c *v1.Container) []int64 {
	if c.Name == "own" {
		return []int64{2}
	}
	return nil
}
func (own) AllocatableCPUs() []int64 { return nil }

func (own) PodMemory(p *v1.Pod) []*podresourcesapi.ContainerMemory {
	if p.Name == "whole" {
		return []*podresourcesapi.ContainerMemory{{MemoryType: "memory", Size: 8}}
	}
	return nil
}
func (own) ContainerMemory(*v1.Pod, *v1.Container) []*podresourcesapi.ContainerMemory { return nil }
func (own) AllocatableMemory() []*podresourcesapi.ContainerMemory                     { return nil }

// A Pod that was given CPUs and memory as a whole has them beside those of its containers.
func TestPodsAsAWhole(t *testing.T) {
	pod := func(name string) *v1.Pod {
		p := &v1.Pod{}
		p.Name = name
		p.Spec.Containers = []v1.Container{{Name: "own"}, {Name: "shared"}}
		return p
	}
	s := &Server{p: Providers{Pods: func() []*v1.Pod { return []*v1.Pod{pod("whole"), pod("single")} }, CPUs: own{},
		Memory: own{}}}
	list, err := s.List(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		`name:"whole"containers:{name:"own"cpu_ids:2}containers:{name:"shared"}cpu_ids:2cpu_ids:3cpu_ids:4` +
			`memory:{memory_type:"memory"size:8}`,
		`name:"single"containers:{name:"own"cpu_ids:2}containers:{name:"shared"}`,
	} {
		if got := strings.ReplaceAll(fmt.Sprint(list.PodResources[i]), " ", ""); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
