// Package containerd keeps a container runtime running beside Gantry: containerd itself, as a child
// of the same binary that outlives it.
//
// A container that exits while containerd is away loses its exit code, so containerd is a process
// of its own session, is adopted by the next Gantry, and is started again at once when it dies.
// Nothing here knows CRI's calls: the kubelet speaks to Endpoint.
//
// In: directories (Config). Out: a CRI socket, images imported from files, events about the child
// (started, adopted, died).
//
// config.go writes its configuration, preflight.go names what is missing, start.go starts or
// adopts, watch.go restarts, images.go imports, clean.go removes what an instance left behind. To
// add a containerd plugin: a blank import in main.go, its setting in config.go.
package containerd
