// Package podinformer reads Pods, volumes and claims from the API server with what scheduling needs
// of them, and decodes what equal Pods share only once.
//
// Every Pod comes twice at least, created and bound, and most of what comes is of no use for
// finding a node: commands, environments, probes, mounts, states of containers, managed fields.
// These are left out before anything is decoded. Specs, labels and statuses that are equal byte by
// byte, as those of one ReplicaSet's Pods are, are decoded once and shared; objects of an informer
// must not be changed anyway. A Pod with a volume brings four changes of volume and claim before
// its own two, one with devices three of its claim: of these only the managed fields are left out.
//
// One goroutine reads and decodes the watch (watchStream), one takes events in and calls the
// handlers (inlineInformer): between the watch and the scheduling queue no goroutine is woken for a
// single object.
//
// In: a client configuration (NewFactory), protobuf as the API server sends it. Out: a factory of
// informers. Where out-of-tree plugins or extenders may read any field, use the ordinary informers.
// To read another resource: a row in resourceTypes (resources.go). To leave out more: a field
// number in trimmedfields.go; fields that are not named there are kept.
package podinformer
