// Package plan decides what the cluster's DNS is: which servers it asks about what, and by which
// objects it is found.
//
// In: the ConfigMap's data, flags, the text of a resolver file. Out: Settings, a Service and an
// EndpointSlice as they should be.
package plan
