// Package kubelet wires one node: it joins the parts that receive, drive, furnish and watch Pods.
// It has no behaviour of its own.
//
// Intake receives Pods and admit judges them; podworker drives each with what observe sees, podplan
// decides and podexec does; volume/furnish, image/pull and resource furnish it; probe/ask watches
// it; podstatus and its patch tell the API.
//
// In: a client of the API, a runtime's CRI services, the kernel's hands (Dependencies),
// KubeletConfiguration. Out: Pods that run, their statuses, events and facts.
//
// To add a part: a package below this one, a field of Kubelet, its line in New.
package kubelet
