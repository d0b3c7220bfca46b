// Package orphanedobjects finds stored objects whose namespace does not exist, and removes them:
// what a write left that was admitted before its namespace was gone.
//
// Keys are read from etcd at one revision, those of namespaces with them. Removal goes through the
// API: graceful for Pods, and an object with finalizers stays until those who set them are done.
// Before each removal etcd is asked once more whether the namespace exists. In: etcd, discovery, a
// client for metadata. Out: deletions, a Report, metrics (gantry_apiserver_orphaned_objects).
// decide.go is pure.
package orphanedobjects
