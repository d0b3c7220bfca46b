// Package devicetainteviction evicts Pods that use devices with NoExecute taints which their claims
// do not tolerate, or no longer, and reports progress in each DeviceTaintRule's status.
//
// In: Pods, allocated ResourceClaims, ResourceSlices, DeviceTaintRules. Out: the condition
// DisruptionTarget with reason DeletionByDeviceTaintManager, then the deletion; the condition
// EvictionInProgress of rules. decide.go and status.go decide, do.go and rule.go read and write.
// KEP-5055.
package devicetainteviction
