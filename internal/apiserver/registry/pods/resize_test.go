package pods

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// Every renamed container is named, init containers by their own field.
func TestRenamedContainersOfAResize(t *testing.T) {
	named := func(names ...string) (out []v1.Container) {
		for _, n := range names {
			out = append(out, v1.Container{Name: n})
		}
		return out
	}
	if errs := validateContainerOrder(named("b", "a"), named("a", "b"), "initContainers"); len(errs) != 2 ||
		errs[1].Error() != "spec.initContainers[1].name: Forbidden: initContainers may not be renamed or reordered "+
			"on resize" {
		t.Errorf("got %v, want both init containers", errs)
	}
	if errs := validateContainerOrder(named("a"), named("a", "b"), "containers"); len(errs) != 1 {
		t.Errorf("got %v, want one error", errs)
	}
}
