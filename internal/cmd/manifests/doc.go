// Package manifests is `gantry manifests`: certificates, kubeconfigs and the static Pods of a
// control plane that a kubelet runs, and the DaemonSet of the driver of local volumes.
package manifests
