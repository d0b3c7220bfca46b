// Package noderole is a kubelet and what it stands on: the container runtime (ContainerRuntime),
// the cgroups, the Pod network, the port's certificates, the images directory, the report of the
// Node.
//
// KubeletOptions are its flags; Load reads its configuration, Role makes its description, Build
// joins the parts, Node.Run runs them until its context ends or one fails. StartContainerRuntime
// starts or adopts containerd, or dials the runtime that Options name. No decision about a Pod is
// made here. It is used by app for `gantry up` and `gantry kubelet`.
package noderole
