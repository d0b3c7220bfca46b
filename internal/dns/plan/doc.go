// Package plan decides the configuration of the cluster's DNS: which servers to ask about which
// names, and the objects through which it is found.
//
// In: the ConfigMap's data, flags, the text of a resolver file. Out: Settings, a Service and an
// EndpointSlice.
package plan
