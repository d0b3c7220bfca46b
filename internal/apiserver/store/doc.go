// Package store says where API objects live: an etcd embedded in this process, or an external
// cluster, behind one constructor.
//
// Keys and values are upstream's: /registry/pods/NAMESPACE/NAME holding binary protobuf. In:
// Options. Out: a Store whose Transport the API server's storage dials, and Close. The embedded
// etcd answers on a unix socket in a 0700 directory and has no peer listener: nobody else reaches
// it.
package store
