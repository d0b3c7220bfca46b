package kubelet

import (
	"os"
	"strings"
)

// appArmor tells whether the kernel of this machine enforces AppArmor profiles.
func appArmor() bool {
	raw, err := os.ReadFile("/sys/module/apparmor/parameters/enabled")
	return err == nil && strings.HasPrefix(string(raw), "Y")
}
