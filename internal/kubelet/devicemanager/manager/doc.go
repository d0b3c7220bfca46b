// Package manager holds the devices of device plugins: it serves their registration, keeps what
// they report and what containers have, asks them to allocate, and keeps a checkpoint.
//
// In: Pods that are admitted and containers that are made, plugins over their sockets. Out: what a
// container gets, the node's extended resources, Pods' allocatedResourcesStatus. What is chosen is
// package devicemanager's; here is who is asked, and in which order.
//
// Devices are noted before their plugin is asked, so that nobody else is given them meanwhile, and
// written to the checkpoint before the Pod is let in. They are free again when their Pod has ended:
// that is looked for whenever devices are wanted.
package manager
