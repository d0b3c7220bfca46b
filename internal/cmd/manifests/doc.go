// Package manifests is `gantry manifests`: certificates, kubeconfigs and the static Pods of a
// control plane that a kubelet runs.
package manifests
