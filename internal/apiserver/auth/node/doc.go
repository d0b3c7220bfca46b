// Package node is the Node authorizer: a kubelet may read what the Pods bound to its node refer to,
// and nothing of other nodes.
//
// An index, kept from Pods, PersistentVolumes, VolumeAttachments and ResourceSlices, answers "does
// this node need that object". In: objects as they change, requests of users named system:node:NAME
// in group system:nodes. Out: an authorizer decision with upstream's reason. To add a kind of
// object that Pods refer to: a line in refs.go and a case in authorize.go.
package node
