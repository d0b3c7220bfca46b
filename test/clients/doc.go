// Package clients plays programs that others wrote for Kubernetes against Gantry: a controller made
// with controller-runtime, Helm, metrics-server, and crictl on the runtime's socket.
//
// A module of its own, so that these programs' dependencies stay out of Gantry's; hack/test.sh runs
// it. Each program but crictl runs against testcluster, and all, as root with `make build` done,
// against `gantry up` with real containers.
package clients
