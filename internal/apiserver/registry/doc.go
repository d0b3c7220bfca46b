// Package registry turns rows of kinds into RESTOptions storage: one strategy for all, status and
// scale endpoints, tables, facts about writes.
//
// In: resourcedef.Kind rows and how to reach etcd. Out: the storages of each group version, ready
// to install. The decisions stand in the rows; what is here is the same for every kind. To add a
// kind: registry/<kind> and a line in apiserver.Kinds.
package registry
