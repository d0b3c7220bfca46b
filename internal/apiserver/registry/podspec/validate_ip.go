package podspec

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// ValidateNonSpecialIP rejects addresses that cannot be an endpoint: unspecified, loopback,
// link-local.
func ValidateNonSpecialIP(path *field.Path, text string) field.ErrorList {
	var f typed.Errors
	a := netutils.ParseIPSloppy(text)
	if a == nil {
		f.Invalid(path, text, "must be a valid IP address")
		return f.List()
	}
	for _, no := range []struct {
		bad     bool
		message string
	}{
		{a.IsUnspecified(), fmt.Sprintf("may not be unspecified (%v)", text)},
		{a.IsLoopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
		{a.IsLinkLocalUnicast(), "may not be in the link-local range (169.254.0.0/16, fe80::/10)"},
		{a.IsLinkLocalMulticast(), "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"},
	} {
		if no.bad {
			f.Invalid(path, text, no.message)
		}
	}
	return f.List()
}
