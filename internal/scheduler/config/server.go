package config

import (
	"fmt"
	"net/url"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	componentbase "k8s.io/component-base/config"
	basevalidation "k8s.io/component-base/config/validation"
	config "k8s.io/kube-scheduler/config/v1"

	electionconfig "github.com/gantry-project/gantry/internal/leaderelection/config"
	"github.com/gantry-project/gantry/internal/pod/fit"
)

// checkProcess checks what is about the process: election and client.
func checkProcess(cfg *config.KubeSchedulerConfiguration) field.ErrorList {
	e, c := cfg.LeaderElection, cfg.ClientConnection
	errs := basevalidation.ValidateClientConnectionConfiguration(&componentbase.ClientConnectionConfiguration{
		Burst: c.Burst, QPS: c.QPS}, field.NewPath("clientConnection"))
	election := electionconfig.FromV1alpha1(e)
	errs = append(errs, electionconfig.Validate(&election, field.NewPath("leaderElection"))...)
	return errs
}

// checkExtenders checks programs that have a say over HTTP.
func checkExtenders(extenders []config.Extender) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("extenders")
	binders, managed := 0, map[string]bool{}
	for i, x := range extenders {
		at := path.Index(i)
		if u, err := url.Parse(x.URLPrefix); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			errs = append(errs, field.Invalid(at.Child("urlPrefix"), x.URLPrefix,
				"must be a URL like http://host:port/path"))
		}
		if x.PrioritizeVerb != "" && x.Weight <= 0 {
			errs = append(errs,
				field.Invalid(at.Child("weight"), x.Weight, "must have a positive weight applied to it"))
		}
		if x.BindVerb != "" {
			binders++
		}
		for j, r := range x.ManagedResources {
			name := at.Child("managedResources").Index(j).Child("name")
			for _, msg := range validation.IsQualifiedName(r.Name) {
				errs = append(errs, field.Invalid(name, r.Name, msg))
			}
			if !fit.IsExtended(v1.ResourceName(r.Name)) {
				errs = append(errs, field.Invalid(name, r.Name, "is an invalid extended resource name"))
			}
			if managed[r.Name] {
				errs = append(errs, field.Invalid(name, r.Name, "duplicate extender managed resource name"))
			}
			managed[r.Name] = true
		}
		if t := x.TLSConfig; t != nil && !x.EnableHTTPS {
			errs = append(errs, field.Invalid(at.Child("tlsConfig"), "", "is set, but enableHTTPS is not"))
		}
	}
	if binders > 1 {
		errs = append(errs, field.Invalid(path, fmt.Sprintf("found %d extenders implementing bind", binders),
			"only one extender can implement bind"))
	}
	return errs
}
