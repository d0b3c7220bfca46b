// Package pods serves the Pod: its strategy, its update rules, its columns, and the subresources
// binding, eviction, log, exec, attach, portforward, proxy, ephemeralcontainers and resize.
//
// The rules of a Pod's spec are in registry/podspec, shared with Pod templates; what only a Pod
// has is here. In: decoded Pods, the store, and how to reach kubelets (Connections). Out: rows for
// apiserver.Kinds. To add a subresource: a file named after it with a rest.Storage, and a line in
// subresources.
package pods
