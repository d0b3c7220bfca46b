package podspec

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
)

// WarnWorkloadName warns of a workload's name that makes a poor Pod name.
func WarnWorkloadName(name string) []string {
	bad := validation.IsDNS1123Label(name)
	if len(bad) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, which can result in "+
		"surprising behavior; a DNS label is recommended: %v", bad)}
}
