package core

import "github.com/gantry-project/gantry/internal/apiserver/registry/kind"

// Kinds are the rows of this package.
func Kinds() []kind.Kind {
	return []kind.Kind{
		namespaces(), configMaps(), secrets(), serviceAccounts(), events(), endpoints(),
		persistentVolumes(), persistentVolumeClaims(), replicationControllers(), limitRanges(), resourceQuotas(), podTemplates(),
	}
}
