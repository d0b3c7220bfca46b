// Package apiserver builds an API server from k8s.io/apiserver; it owns no policy.
//
// A write passes authentication, authorization, admission and the kind's strategy and is stored in
// etcd under /registry; watchers get it at its resourceVersion. The server chain is the aggregator,
// then the resources of Kinds, then custom resources. In: a Config (addresses, certificate files,
// Access, connections to kubelets). Out: a Server with Run, Ready and InProcess. To add a kind:
// registry/<group>/<kind>.go and a line in kinds.go. To add an admission plugin: admission/<name>
// and a line in admission.Plugins.
package apiserver
