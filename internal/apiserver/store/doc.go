// Package store opens the etcd that holds the API objects: embedded in this process or an external
// cluster.
//
// Keys and values are upstream's: /registry/pods/NAMESPACE/NAME holds binary protobuf. In: Options.
// Out: a Store, whose Transport (external) or in-process client (embedded, see ShareClient) the
// registry's storages use, with backup, compaction and health checks. The embedded etcd listens on
// a unix socket in a 0700 directory and has no peer listener.
package store
