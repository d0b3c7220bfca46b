// Package noderestriction is the admission plugin NodeRestriction: a kubelet may change its own
// Node and the Pods bound to it alone, where authorization cannot see the object.
//
// In: writes by users named system:node:NAME. Out: nothing, or a refusal with upstream's text.
// To add a kind: a case in Plugin.admitRequest.
package noderestriction
