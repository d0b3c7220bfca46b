package virtualnode

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// Evict ends a Pod as a kubelet does whose node lacks something; false: it ends already.
func (k *Kubelets) Evict(uid types.UID, why podplan.Termination) bool {
	w := k.pods[uid]
	if w == nil || w.evicted != nil || k.lost[w.pod.Spec.NodeName] {
		return false
	}
	w.evicted = &why
	k.mark(w)
	return true
}

// outOfMemory is the reason that the kernel's kill of a container has in its status.
const outOfMemory = "OOMKilled"

// KillOutOfMemory ends a container as the kernel does that takes more memory than its limit; false:
// it does not run.
func (k *Kubelets) KillOutOfMemory(uid types.UID, container string) bool {
	w := k.pods[uid]
	if w == nil || w.fails != "" || k.lost[w.pod.Spec.NodeName] {
		return false
	}
	c := w.observed.Latest(container)
	if c == nil || c.State != podplan.Running {
		return false
	}
	w.exit(container, killedCode, k.now())
	w.observed.Latest(container).Exit.Reason = outOfMemory
	k.mark(w)
	return true
}
