// Package containerd runs a container runtime beside Gantry: containerd, as a child of the same
// binary that outlives it.
//
// A container that exits while containerd is down loses its exit code. So containerd runs in its
// own session, is adopted by the next Gantry, and is restarted at once when it dies. This package
// makes no CRI calls beyond checking readiness: the kubelet connects to Endpoint.
//
// In: directories (Config). Out: a CRI socket, images imported from files, events of the child
// (started, adopted, died).
//
// config.go writes its configuration, preflight.go checks prerequisites, start.go starts or adopts,
// watch.go restarts, imagearchives.go imports, clean.go removes what an instance left behind. To
// add a containerd plugin: a blank import in main.go, its setting in config.go.
package containerd
