package crifake

import (
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// FaultPod is Fault for calls about one Pod, by its name; it has precedence over a fault of the
// method. Calls that list concern no Pod.
func (f *Fake) FaultPod(pod, method, terms string) error {
	list, err := parseFaults(terms)
	if err != nil {
		return fmt.Errorf("crifake: fault %s of pod %s %q: %w", method, pod, terms, err)
	}
	f.faults.set(method+" "+pod, list)
	return nil
}

// faultOf consumes one term of the faults that apply to a call.
func (f *Fake) faultOf(method string, req any) term {
	if pod := f.podOf(req); pod != "" {
		if t := f.faults.next(method + " " + pod); t.action != "ok" {
			return t
		}
	}
	return f.faults.next(method)
}

// podOf returns the name of the Pod that a request is about; empty if there is none.
func (f *Fake) podOf(req any) string {
	switch r := req.(type) {
	case *runtimeapi.RunPodSandboxRequest:
		return r.GetConfig().GetMetadata().GetName()
	case *runtimeapi.CreateContainerRequest:
		return r.GetSandboxConfig().GetMetadata().GetName()
	case *runtimeapi.PullImageRequest:
		return r.GetSandboxConfig().GetMetadata().GetName()
	}
	box := ""
	if r, ok := req.(interface{ GetPodSandboxId() string }); ok {
		box = r.GetPodSandboxId()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if r, ok := req.(interface{ GetContainerId() string }); ok {
		if c := f.containers[r.GetContainerId()]; c != nil {
			box = c.sandbox.id
		}
	}
	if s := f.sandboxes[box]; s != nil {
		return s.config.GetMetadata().GetName()
	}
	return ""
}
