// Package config has the configuration of an election: its defaults, its form in files and what is
// wrong with one.
package config

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentbase "k8s.io/component-base/config"
	"k8s.io/component-base/config/v1alpha1"
	"k8s.io/component-base/config/validation"
)

// Default is the configuration of a component whose Lease in kube-system has that name.
func Default(lease string) componentbase.LeaderElectionConfiguration {
	return componentbase.LeaderElectionConfiguration{
		LeaderElect: true, LeaseDuration: metav1.Duration{Duration: 15 * time.Second},
		RenewDeadline: metav1.Duration{Duration: 10 * time.Second},
		RetryPeriod:   metav1.Duration{Duration: 2 * time.Second},
		ResourceLock:  resourcelock.LeasesResourceLock, ResourceName: lease, ResourceNamespace: metav1.NamespaceSystem,
	}
}

// Validate says what is wrong with a configuration, under path.
func Validate(c *componentbase.LeaderElectionConfiguration, path *field.Path) field.ErrorList {
	errs := validation.ValidateLeaderElectionConfiguration(c, path)
	if c.LeaderElect && c.ResourceLock != resourcelock.LeasesResourceLock {
		errs = append(errs, field.Invalid(path.Child("resourceLock"), c.ResourceLock,
			`resourceLock value must be "leases"`))
	}
	return errs
}

// FromV1alpha1 is a completed configuration of a file in the form that Run takes.
func FromV1alpha1(e v1alpha1.LeaderElectionConfiguration) componentbase.LeaderElectionConfiguration {
	return componentbase.LeaderElectionConfiguration{
		LeaderElect: *e.LeaderElect, LeaseDuration: e.LeaseDuration, RenewDeadline: e.RenewDeadline,
		RetryPeriod:  e.RetryPeriod,
		ResourceLock: e.ResourceLock, ResourceName: e.ResourceName, ResourceNamespace: e.ResourceNamespace,
	}
}
