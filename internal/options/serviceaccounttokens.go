package options

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/control/serviceaccounttoken"
)

// ServiceAccountTokens configure the controllers of tokens in Secrets. Flags are
// kube-controller-manager's.
type ServiceAccountTokens struct {
	KeyFile       string // signs them; "": none are made
	CleanUpPeriod time.Duration
}

// Flags adds the flag of the clean-up.
func (t *ServiceAccountTokens) Flags(f *pflag.FlagSet) {
	f.DurationVar(&t.CleanUpPeriod, "legacy-service-account-token-clean-up-period",
		serviceaccounttoken.DefaultCleanUpPeriod,
		"how long a generated token in a Secret must not have been used before it is marked invalid, and then "+
			"before it is deleted")
}

// KeyFlag adds the flag of the key, for controllers that run alone.
func (t *ServiceAccountTokens) KeyFlag(f *pflag.FlagSet) {
	f.StringVar(&t.KeyFile, "service-account-private-key-file", "",
		"key that signs the tokens in Secrets of type kubernetes.io/service-account-token (default: none are made)")
}

// Check refuses what the controllers cannot work with.
func (t *ServiceAccountTokens) Check() error {
	if t.CleanUpPeriod <= 0 {
		return cli.UsageError(fmt.Errorf("--legacy-service-account-token-clean-up-period=%s: want more than 0, such as "+
			"8760h", t.CleanUpPeriod))
	}
	return nil
}
