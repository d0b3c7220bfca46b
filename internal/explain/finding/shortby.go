package finding

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

// shortBy is by how much a volume is too small, in the unit of memory that says it without a rest
// of bytes.
func shortBy(want, has resource.Quantity) string {
	missing := want.Value() - has.Value()
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 30, "Gi"}, {1 << 20, "Mi"}, {1 << 10, "Ki"}} {
		if missing >= unit.size {
			return fmt.Sprintf("%d%s", missing/unit.size, unit.name)
		}
	}
	return fmt.Sprint(missing)
}
