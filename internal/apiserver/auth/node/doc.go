// Package node lets a node agent reach what the Pods bound to its node need, and nothing of other
// nodes.
//
// An index, kept from Pods, PersistentVolumes, VolumeAttachments and ResourceSlices, answers "does
// this node need that object". In: objects as they change, requests of users named system:node:NAME
// in group system:nodes. Out: an authorizer decision with upstream's reason. To add a kind of
// object that Pods refer to: a line in refs.go and a case in authorize.go.
package node
