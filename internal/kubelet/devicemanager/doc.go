// Package devicemanager decides which devices of device plugins a container gets, and what the
// node says of them.
//
// In: the devices that plugins report (Inventory), what containers have (PodDevices), a container's
// request, what the plugin prefers and what the topology manager chose. Out: device ids (Choose),
// what the runtime gets (RunOptions), resources of the node's and of Pods' status. Answers to equal
// questions are equal: ids are taken in their order.
//
// The child manager talks to plugins and keeps the checkpoint; checkpoint is its format; plugin is
// the registration service and the client of one plugin.
//
// https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
package devicemanager
