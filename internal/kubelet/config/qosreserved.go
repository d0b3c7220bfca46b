package config

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubelet/config/v1beta1"
)

// QOSReserved is how much of the memory that Pods of higher QoS classes request is kept from lower
// ones, in percent, as qosReserved says; 0: nothing is. The errors are upstream's.
func QOSReserved(c *v1beta1.KubeletConfiguration) (memory int64, err error) {
	for name, share := range c.QOSReserved {
		if v1.ResourceName(name) != v1.ResourceMemory {
			return 0, fmt.Errorf("cannot reserve %q resource", name)
		}
		if memory, err = percentage(share); err != nil {
			return 0, fmt.Errorf("failed to parse percentage %q for %q resource: %w", share, name, err)
		}
	}
	return memory, nil
}

func percentage(text string) (int64, error) {
	number, ok := strings.CutSuffix(text, "%")
	if !ok {
		return 0, fmt.Errorf("percentage expected, got '%s'", text)
	}
	n, err := strconv.ParseInt(number, 10, 0)
	switch {
	case err != nil:
		return 0, fmt.Errorf("invalid number in percentage '%s'", text)
	case n < 0 || n > 100:
		return 0, fmt.Errorf("percentage must be between 0 and 100")
	}
	return n, nil
}
