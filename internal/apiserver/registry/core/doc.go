// Package core serves the smaller kinds of the core group: Namespace, ConfigMap, Secret,
// ServiceAccount, Event, Endpoints, PersistentVolume, PersistentVolumeClaim, ReplicationController,
// LimitRange, ResourceQuota, PodTemplate.
//
// One file per kind with its row, defaults, rules and columns. In: decoded objects. Out: rows for
// apiserver.Kinds. To add a kind: a file with a function returning its row, and a line in Kinds.
package core
