package podplan

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/dump"
)

// Hash tells one definition of a container from another: name and image, spelt as upstream's
// kubelet does, so that containers survive a change of kubelet.
func Hash(c *v1.Container) string {
	raw, err := json.Marshal(map[string]string{"name": c.Name, "image": c.Image})
	if err != nil {
		return "" // two strings always marshal
	}
	h := fnv.New32a()
	fmt.Fprintf(h, "%v", dump.ForHash(raw))
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}
