package config

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	componentbase "k8s.io/component-base/config"
)

// Times that cannot work and another kind of lock are refused by name.
func TestBadElectionsAreRefused(t *testing.T) {
	for name, bad := range map[string]func(*componentbase.LeaderElectionConfiguration){
		"leaderElection.leaseDuration": func(c *componentbase.LeaderElectionConfiguration) {
			c.LeaseDuration.Duration = time.Second
		},
		"leaderElection.renewDeadline": func(c *componentbase.LeaderElectionConfiguration) {
			c.RenewDeadline.Duration = -1
		},
		"leaderElection.resourceLock": func(c *componentbase.LeaderElectionConfiguration) {
			c.ResourceLock = "endpoints"
		},
		"leaderElection.resourceName": func(c *componentbase.LeaderElectionConfiguration) { c.ResourceName = "" },
	} {
		c := Default("worker")
		if errs := Validate(&c, field.NewPath("leaderElection")); len(errs) > 0 {
			t.Fatalf("the default is refused: %v", errs)
		}
		bad(&c)
		if err := Validate(&c, field.NewPath("leaderElection")).ToAggregate(); err == nil ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an error about %s", err, name)
		}
	}
}
