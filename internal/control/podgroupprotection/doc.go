// Package podgroupprotection removes the protection finalizer of PodGroups that are being deleted
// when no Pod of theirs runs any more.
//
// The admission plugin PodGroupProtection adds the finalizer. In: PodGroups, where they are served,
// and Pods. Out: the finalizer removed.
package podgroupprotection
