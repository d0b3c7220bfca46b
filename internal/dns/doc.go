// Package dns answers names: those of the cluster from what the API server has, others by asking
// upstream.
//
// A Pod finds others by name here. CoreDNS's kubernetes, cache and forward plugins do the answering
// (docs/adr/0008); around them this package holds sockets, follows the ConfigMap
// kube-system/kube-dns and the node's resolver file, and keeps the Service and the EndpointSlice by
// which other nodes find this server. Answers about the cluster are never cached: a change shows as
// soon as it is seen.
//
// In: Options (API server, addresses, upstreams). Out: answers on the cluster DNS address, /health,
// /ready, /metrics, a Service, a slice. What is decided (settings, upstreams, objects) is in plan,
// which is pure. To take another key of the ConfigMap: plan/settings.go.
package dns
