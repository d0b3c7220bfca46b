// Package dns answers DNS queries: the cluster's names from the API server's objects, others from
// upstream servers.
//
// CoreDNS's kubernetes, cache and forward plugins answer queries (docs/adr/0008). This package adds
// sockets, follows the ConfigMap kube-system/kube-dns and the node's resolver file, and maintains
// the Service and the EndpointSlice through which other nodes reach this server. Answers about the
// cluster are never cached, so that changes show at once.
//
// In: Options (API server, addresses, upstreams). Out: answers on the cluster DNS address, /health,
// /ready, /metrics, a Service, an EndpointSlice. Decisions (settings, upstreams, objects) are in
// plan, which is pure. To support another key of the ConfigMap: plan/settings.go.
package dns
