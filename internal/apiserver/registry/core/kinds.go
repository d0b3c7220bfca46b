package core

import "github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"

// Kinds are the rows of this package.
func Kinds() []resourcedef.Kind {
	return []resourcedef.Kind{
		namespaces(), configMaps(), secrets(), serviceAccounts(), events(), endpoints(),
		persistentVolumes(), persistentVolumeClaims(), replicationControllers(), limitRanges(), resourceQuotas(),
		podTemplates(),
	}
}
