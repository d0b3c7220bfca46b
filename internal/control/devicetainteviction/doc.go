// Package devicetainteviction deletes Pods that use devices with NoExecute taints which their
// claims do not tolerate, or not for longer, and says in each DeviceTaintRule's status how far that
// has come.
//
// In: Pods, allocated ResourceClaims, ResourceSlices, DeviceTaintRules. Out: the condition
// DisruptionTarget with reason DeletionByDeviceTaintManager, then the deletion; the condition
// EvictionInProgress of rules. decide.go and status.go rule, do.go reads and writes. KEP-5055.
package devicetainteviction
