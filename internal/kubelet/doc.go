// Package kubelet wires one node: it joins the parts that receive, keep, prepare and probe Pods. It
// has no behaviour of its own.
//
// podsource receives Pods, admit and allocation let them in; podworker keeps each of them with what
// pleg sees, podplan decides and podactions does; volumemanager, images and resource prepare it;
// prober probes it; podview and podstatus say what is shown of it, and podstatus/statusmanager
// writes that to the API.
//
// In: a client of the API, a runtime's CRI services, the kernel's interfaces (Dependencies),
// KubeletConfiguration. Out: Pods that run, their statuses, events and facts.
//
// To add a part: a package below this one, a field of Kubelet, its line in New.
package kubelet
