package podactions

import (
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/kubelet/resource"
)

// ownResources is what the Pod's containers are given, and overhead what its RuntimeClass adds for
// the sandbox itself, requested and limited alike; nil when it adds nothing.
// https://kubernetes.io/docs/concepts/scheduling-eviction/pod-overhead/
func ownResources(pod *v1.Pod, o resource.Options) *runtimeapi.LinuxContainerResources {
	stripped := *pod
	stripped.Spec.Overhead = nil
	return podResources(&stripped, o)
}

func overhead(pod *v1.Pod, o resource.Options) *runtimeapi.LinuxContainerResources {
	if len(pod.Spec.Overhead) == 0 {
		return nil
	}
	size := v1.ResourceRequirements{Requests: pod.Spec.Overhead, Limits: pod.Spec.Overhead}
	return podResources(&v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: size}}}}, o)
}
