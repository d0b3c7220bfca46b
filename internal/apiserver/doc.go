// Package apiserver assembles k8s.io/apiserver into one handler chain; it owns no policy.
//
// A write passes authentication, authorization, admission, a kind's strategy, and lands in etcd
// under /registry; watchers see it at the revision it was given. Chain: aggregator, then the kinds
// of Kinds, then custom resources. In: a Config (addresses, certificate files, access rules,
// connections to kubelets). Out: a Server with Run, Ready and InProcess. To add a kind: a row in
// registry/<kind> and a line in kinds.go. To add an admission plugin: admission/<name> and a row in
// Access.Plugins.
package apiserver
