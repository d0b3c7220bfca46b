// Package registry makes the REST storages of the served kinds: one strategy for all kinds, status
// and scale subresources, tables, and the journal of Pod writes.
//
// In: resourcedef.Kind values and a RESTOptionsGetter. Out: a StorageSet with the storages of each
// group version, ready to install. What differs between kinds is in their resourcedef.Kind; what is
// here is the same for all. To add a kind: registry/<group>/<kind>.go and a line in
// apiserver.Kinds.
package registry
