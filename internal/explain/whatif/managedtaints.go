package whatif

import (
	"strings"

	v1 "k8s.io/api/core/v1"
)

// ManagedTaint is a taint that a component sets and takes off again: until then the node is not for
// Pods, and one that somebody takes off or tolerates hides what is wrong.
type ManagedTaint struct {
	Since string // why it is there, after "as"
	Fix   string // what a person can do
}

// managedTaints are those of components outside of the node's own controller, by key.
var managedTaints = map[string]ManagedTaint{
	"node.cloudprovider.kubernetes.io/uninitialized": {"no cloud controller manager has initialized the node",
		"start the cloud controller manager, or see what it says of the node; without one the kubelet has to be " +
			"started without --cloud-provider=external"},
	"node.cloudprovider.kubernetes.io/shutdown": {"the cloud provider says that its machine is shut down",
		"start the machine"},
	"ToBeDeletedByClusterAutoscaler": {"the cluster autoscaler is removing the node",
		"let the cluster autoscaler add another node, or see what it says"},
	"DeletionCandidateOfClusterAutoscaler": {"the cluster autoscaler is about to remove the node",
		"let the cluster autoscaler add another node, or see what it says"},
	"karpenter.sh/disrupted": {"Karpenter is replacing the node", "see what the NodeClaims and Karpenter say"},
	"karpenter.sh/unregistered": {"Karpenter waits for the node's registration to be complete",
		"see what the NodeClaims and Karpenter say"},
	"node.cilium.io/agent-not-ready": {"the Cilium agent of the node is not ready",
		"see why the Pod of DaemonSet cilium on the node is not ready"},
	"ebs.csi.aws.com/agent-not-ready": {"the CSI driver of the node is not ready",
		"see why the driver's Pod on the node is not ready"},
}

// ManagedTaintOf returns who sets a taint of that key and why; false where a person or the node's
// own controller does.
func ManagedTaintOf(key string) (ManagedTaint, bool) {
	m, ok := managedTaints[key]
	return m, ok
}

// isNodeConditionTaint reports whether the system manages the taint: it is removed with its cause,
// and should not be tolerated.
func isNodeConditionTaint(t v1.Taint) bool {
	_, managed := managedTaints[t.Key]
	return managed || strings.HasPrefix(t.Key, "node.kubernetes.io/")
}
