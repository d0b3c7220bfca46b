package leaderelection

import (
	"github.com/spf13/pflag"
	componentbase "k8s.io/component-base/config"
	"k8s.io/component-base/config/options"
	"k8s.io/component-base/config/v1alpha1"

	"github.com/gantry-project/gantry/internal/leaderelection/config"
)

// Flags are upstream's flags of an election, --leader-elect and those that begin so.
type Flags struct {
	Config componentbase.LeaderElectionConfiguration // what they say, and defaults
	set    *pflag.FlagSet
}

// Add adds the flags to a set, with the defaults of a component whose Lease has that name.
func (f *Flags) Add(s *pflag.FlagSet, lease string) {
	f.Config, f.set = config.Default(lease), s
	options.BindLeaderElectionFlags(&f.Config, s)
}

// Override replaces in c, which a file gave, what a flag says.
func (f *Flags) Override(c *v1alpha1.LeaderElectionConfiguration) {
	given := f.Config
	for flag, replace := range map[string]func(){
		"leader-elect":                    func() { c.LeaderElect = &given.LeaderElect },
		"leader-elect-lease-duration":     func() { c.LeaseDuration = given.LeaseDuration },
		"leader-elect-renew-deadline":     func() { c.RenewDeadline = given.RenewDeadline },
		"leader-elect-retry-period":       func() { c.RetryPeriod = given.RetryPeriod },
		"leader-elect-resource-lock":      func() { c.ResourceLock = given.ResourceLock },
		"leader-elect-resource-name":      func() { c.ResourceName = given.ResourceName },
		"leader-elect-resource-namespace": func() { c.ResourceNamespace = given.ResourceNamespace },
	} {
		if f.set.Changed(flag) {
			replace()
		}
	}
}
