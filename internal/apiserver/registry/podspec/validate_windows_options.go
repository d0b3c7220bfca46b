package podspec

import (
	"fmt"
	"regexp"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Active Directory's limits on the parts of a Windows user name, and the patterns of the
// parts.
const (
	windowsDomain = 256
	windowsUser   = 104
)

var (
	netBIOSName = regexp.MustCompile(`^[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}$`)
	dnsName     = regexp.MustCompile(
		`^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)
	dotsAndSpaces = regexp.MustCompile(`^[\. ]+$`)
)

// windows validates windowsOptions; Gantry's nodes do not run such Pods.
func (j *validator) windows(w *v1.WindowsSecurityContextOptions, path *field.Path) {
	if w == nil {
		return
	}
	const specKiB = 64
	if n := w.GMSACredentialSpecName; n != nil {
		j.DNSSubdomain(path.Child("gmsaCredentialSpecName"), *n)
	}
	if s := w.GMSACredentialSpec; s != nil {
		at := path.Child("gmsaCredentialSpec")
		switch {
		case *s == "":
			j.Invalid(at, *s, "gmsaCredentialSpec cannot be an empty string")
		case len(*s) > specKiB*1024:
			j.Invalid(at, *s, fmt.Sprintf("gmsaCredentialSpec size must be under %d KiB", specKiB))
		}
	}
	if w.RunAsUserName != nil {
		j.windowsUser(*w.RunAsUserName, path.Child("runAsUserName"))
	}
}

// windowsUser validates runAsUserName: USER or DOMAIN\USER.
func (j *validator) windowsUser(name string, at *field.Path) {
	domain, user, hasDomain := strings.Cut(name, `\`)
	switch {
	case name == "":
		j.Invalid(at, name, "runAsUserName cannot be an empty string")
		return
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		j.Invalid(at, name, "runAsUserName cannot contain control characters")
		return
	case strings.Contains(user, `\`):
		j.Invalid(at, name, "runAsUserName cannot contain more than one backslash")
		return
	case !hasDomain:
		domain, user = "", name
	}
	if len(domain) >= windowsDomain {
		j.Invalid(at, name, fmt.Sprintf("runAsUserName's Domain length must be under %d characters", windowsDomain))
	}
	if hasDomain && !netBIOSName.MatchString(domain) && !dnsName.MatchString(domain) {
		j.Invalid(at, name, "runAsUserName's Domain doesn't match the NetBios nor the DNS format")
	}
	switch {
	case user == "":
		j.Invalid(at, name, "runAsUserName's User cannot be empty")
	case len(user) > windowsUser:
		j.Invalid(at, name, fmt.Sprintf("runAsUserName's User length must not be longer than %d characters",
			windowsUser))
	}
	if dotsAndSpaces.MatchString(user) {
		j.Invalid(at, name, "runAsUserName's User cannot contain only periods or spaces")
	}
	if strings.ContainsAny(user, `"/\:;|=,+*?<>@[]`) {
		j.Invalid(at, name, `runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]`)
	}
}

// hostProcess checks that Windows host-process containers are not mixed with others and use the
// host network.
func (j *validator) hostProcess(spec *field.Path) {
	var whole *bool
	if s := j.spec.SecurityContext; s != nil && s.WindowsOptions != nil {
		whole = s.WindowsOptions.HostProcess
	}
	some, all := false, true
	j.visitContainers(spec, func(c *v1.Container, p *field.Path) {
		is := whole
		if s := c.SecurityContext; s != nil && s.WindowsOptions != nil && s.WindowsOptions.HostProcess != nil {
			is = s.WindowsOptions.HostProcess
			if whole != nil && *whole != *is {
				j.Invalid(p.Child("securityContext", "windowsOptions", "hostProcess"), *is,
					fmt.Sprintf("pod hostProcess value must be identical if both are specified, was %v", *whole))
			}
		}
		some, all = some || is != nil && *is, all && is != nil && *is
	})
	if !some {
		return
	}
	if !all {
		j.Invalid(spec, "",
			"If pod contains any hostProcess containers then all containers must be HostProcess containers")
	}
	if !j.spec.HostNetwork {
		j.Invalid(spec.Child("hostNetwork"), j.spec.HostNetwork,
			"hostNetwork must be true if pod contains any hostProcess containers")
	}
}
