// Package apps holds the rows of apps/v1: Deployment, ReplicaSet, StatefulSet, DaemonSet,
// ControllerRevision.
//
// What these kinds share over their Pod template and selector stands in workload.go. In: nothing.
// Out: rows for apiserver.Kinds, with v1.37's defaults, checks, immutable fields and columns.
package apps
