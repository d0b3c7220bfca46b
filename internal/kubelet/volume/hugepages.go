package volume

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// HugePage is the page size, like 2Mi, of a volume of the medium HugePages or HugePages-<size>: the
// size named, which some container must ask for, or the only size the Pod's containers ask for.
// https://kubernetes.io/docs/tasks/manage-hugepages/scheduling-hugepages/
func HugePage(pod *v1.Pod, medium v1.StorageMedium) (string, error) {
	var want resource.Quantity
	if named, ok := strings.CutPrefix(string(medium), string(v1.StorageMediumHugePagesPrefix)); ok {
		var err error
		if want, err = resource.ParseQuantity(named); err != nil {
			return "", fmt.Errorf("medium %s: %w", medium, err)
		}
	}
	found := map[string]bool{}
	for _, list := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			for name := range list[i].Resources.Requests {
				text, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
				if !ok {
					continue
				}
				size, err := resource.ParseQuantity(text)
				if err != nil {
					return "", fmt.Errorf("resource %s: %w", name, err)
				}
				if want.IsZero() || size.Cmp(want) == 0 {
					found[size.String()] = true
				}
			}
		}
	}
	if len(found) > 1 {
		return "", fmt.Errorf("medium: %s can't be used if container requests multiple huge page sizes", medium)
	}
	for size := range found {
		return size, nil
	}
	return "", fmt.Errorf("medium %s: hugePages storage requested, but there is no resource request for huge pages",
		medium)
}
