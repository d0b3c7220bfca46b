// Package podinformer reads Pods, volumes and claims off the wire with what scheduling needs, and
// what equal Pods share only once.
//
// Every Pod comes twice at least, created and bound, and most of what comes is of no use for
// finding a node: commands, environments, probes, mounts, states of containers, managed fields.
// These are left out before anything is decoded. Specs, labels and statuses that are equal byte by
// byte, as those of one ReplicaSet's Pods are, are decoded once and shared; nobody may write to
// objects of an informer anyway. A Pod with a volume brings four changes of volume and claim before
// its own two, one with devices three of its claim: of these only the managed fields are left out,
// but they come the same short way.
//
// One goroutine reads and decodes the watch (stream), one takes events in and calls the handlers
// (feed): between the watch and the queue nobody is woken for a single object.
//
// In: a client configuration (NewFactory), protobuf as the API server sends it. Out: a factory of
// informers. Where plugins from elsewhere or extenders may read any field, the ordinary informers
// are to be used. To read another kind: a line in features.go. To leave out more: a number in
// fields.go; fields that are not named there are kept.
package podinformer
