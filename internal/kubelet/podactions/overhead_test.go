package podactions

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	kubeletresource "github.com/gantry-project/gantry/internal/kubelet/resource"
)

func TestSandboxHasResourcesAndOverhead(t *testing.T) {
	size := func(cpu, memory string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	}
	call := testOperation(t, &fakePorts{},
		testPod(v1.Container{Name: "c", Resources: v1.ResourceRequirements{Requests: size("500m", "64Mi"),
			Limits: size("1", "128Mi")}}))
	call.executor.d.Node.Resources = kubeletresource.Options{CFSQuota: true}
	call.pod.Spec.Overhead = size("250m", "32Mi")
	l, err := call.linuxSandbox(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r := l.Resources; r.CpuShares != 512 || r.CpuQuota != 100000 || r.MemoryLimitInBytes != 128<<20 {
		t.Errorf("the containers' part: got %v, want CpuShares 512 and CpuQuota 100000 and MemoryLimitInBytes %v", r,
			128<<20)
	}
	if r := l.Overhead; r.CpuShares != 256 || r.CpuQuota != 25000 || r.MemoryLimitInBytes != 32<<20 {
		t.Errorf("the overhead: got %v, want CpuShares 256 and CpuQuota 25000 and MemoryLimitInBytes %v", r, 32<<20)
	}
}
