// Package clients plays programs that others wrote for Kubernetes against Gantry: a controller made with controller-runtime, Helm, and metrics-server.
//
// Chapter: tests. A module of its own, so that these programs' dependencies stay out of Gantry's; hack/test.sh runs it. Each program runs against
// testcluster and, as root with `make build` done, against `gantry up` with real containers.
package clients
