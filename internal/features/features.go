package features

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Features are the gates of v1.37 that can be switched; all are off by default, but for those that
// begin with No: their gate is on.
type Features struct {
	GenericWorkload bool // Workload, PodGroup and gang scheduling (KEP-4671)
	// what v1.37 stores and says otherwise than v1.36 is as it was there (--emulated-version)
	V136                  bool
	CBORServingAndStorage bool // CBOR beside JSON and protobuf, custom objects stored in it (KEP-4222)
	CSIVolumeHealth       bool // what CSI drivers say of their volumes, in Pods, claims and CSINodes (KEP-1432)
	// claims may be made from a source in another namespace (KEP-3294)
	CrossNamespaceVolumeDataSource bool
	NoHPAScaleToZero               bool // HorizontalPodAutoscalers have at least one replica (KEP-2021)
	// claims do not tell since when no Pod names them (KEP-5541); nor do they as of v1.36
	NoPersistentVolumeClaimUnusedSinceTime bool
}

// knownGates are gates of v1.36 that became a part of another one.
var knownGates = map[string]string{"GangScheduling": "GenericWorkload", "WorkloadAwarePreemption": "GenericWorkload"}

// lockedGates are gates whose behaviour is part of the product for good: naming them is fine,
// switching them off is not.
var lockedGates = []string{
	"NodeOutOfServiceVolumeDetach", "PodDisruptionConditions", "PodReadyToStartContainersCondition",
	"SidecarContainers", "StorageCapacityScoring", "UserNamespacesPodSecurityStandards",
}

// Parse reads gates by name. The error names a gate that does not exist, and what does.
func Parse(gates map[string]bool) (Features, error) {
	var f Features
	known := map[string]*bool{"GenericWorkload": &f.GenericWorkload, "CBORServingAndStorage": &f.CBORServingAndStorage,
		"CSIVolumeHealth": &f.CSIVolumeHealth, "CrossNamespaceVolumeDataSource": &f.CrossNamespaceVolumeDataSource}
	scaleToZero, unusedSince := true, true
	known["HPAScaleToZero"], known["PersistentVolumeClaimUnusedSinceTime"] = &scaleToZero, &unusedSince
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		if slices.Contains(lockedGates, name) {
			if !gates[name] {
				return f, fmt.Errorf("cannot set feature gate %s to false, feature is locked to true", name)
			}
			continue
		}
		at := known[name]
		switch into := knownGates[name]; {
		case into != "":
			return f, fmt.Errorf("unrecognized feature gate: %s: since v1.37 it is a part of %s", name, into)
		case at == nil:
			return f, fmt.Errorf("unrecognized feature gate: %s: what can be switched here is %s", name,
				strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		*at = gates[name]
	}
	f.NoHPAScaleToZero, f.NoPersistentVolumeClaimUnusedSinceTime = !scaleToZero, !unusedSince
	return f, nil
}

// Emulate applies --emulated-version: the component answers as that version did where a later one
// changed defaults and texts. Kinds and fields are those of v1.37 in any case.
func (f *Features) Emulate(versions []string) error {
	for _, v := range versions {
		switch strings.TrimPrefix(strings.TrimPrefix(v, "kube="), "kube:") {
		case "1.37":
			f.V136 = false
		case "1.36":
			f.V136, f.NoPersistentVolumeClaimUnusedSinceTime = true, true
		default:
			return fmt.Errorf("%q: want 1.36 or 1.37, or kube=1.36 or kube=1.37", v)
		}
	}
	return nil
}

// beta is the group version that GenericWorkload serves.
const beta = "scheduling.k8s.io/v1beta1"

// Serve applies --runtime-config. A version behind a gate is served with its gate, unless it is
// switched off here; one whose gate is off cannot be switched on.
func (f *Features) Serve(versions map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		on := versions[name] == "" || versions[name] == "true"
		if !on && versions[name] != "false" {
			return fmt.Errorf("%s=%s: want true or false", name, versions[name])
		}
		switch {
		case name == beta && on && !f.GenericWorkload:
			return fmt.Errorf("%s=true: nothing of it is served without --feature-gates=GenericWorkload=true", name)
		case name == beta && !on:
			f.GenericWorkload = false
		case name == beta, name == "api/all" && on, name == "api/beta" && on, name == "api/ga" && on:
		default:
			return fmt.Errorf(
				"%s=%s: cannot be switched; what can is %s, together with --feature-gates=GenericWorkload=true", name,
				versions[name], beta)
		}
	}
	return nil
}
