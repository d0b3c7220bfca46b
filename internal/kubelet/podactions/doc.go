// Package podactions carries out what podplan decided: one file per action, nothing chosen here. It
// is what upstream's kuberuntime does in SyncPod and KillPod.
//
// It turns a Pod's spec into CRI requests (sandbox and container configuration, environment,
// mounts, DNS, security), runs lifecycle hooks, and stops containers in the given order and time.
// Labels and annotations in the runtime are upstream's, so that crictl and a restarted kubelet read
// them.
//
// In: actions of podplan for one Pod at a time. Out: calls to the runtime, the image puller,
// volumes and cgroups through the ports of Deps; events and facts; errors as *reason.Refusal with
// the waiting reason as code.
//
// To add an action: a case in Do and a file of its own.
package podactions
