package options

import (
	"github.com/gantry-project/gantry/internal/dns/plan"
)

// ResolvConf is the resolver file of a machine.
const ResolvConf = "/etc/resolv.conf"

// resolvedConf is what systemd-resolved knows when /etc/resolv.conf names only its own stub on
// loopback, which Pods cannot reach.
const resolvedConf = "/run/systemd/resolve/resolv.conf"

// PodResolverFile is the resolver file that Pods get: not one that names only loopback addresses
// when systemd-resolved has a better one.
func PodResolverFile(read func(string) ([]byte, error)) string {
	text, err := read(ResolvConf)
	if err != nil {
		return ResolvConf
	}
	for _, s := range plan.Nameservers(string(text), nil) {
		if !s.Addr().IsLoopback() {
			return ResolvConf
		}
	}
	if text, err := read(resolvedConf); err == nil && len(plan.Nameservers(string(text), nil)) > 0 {
		return resolvedConf
	}
	return ResolvConf
}
