package config

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	config "k8s.io/kube-scheduler/config/v1"

	"github.com/gantry-project/gantry/internal/scheduler/plugins"
)

// knownNames tells which plugins there are.
func knownNames(known []string) map[string]bool {
	out := map[string]bool{}
	for _, name := range known {
		out[name] = true
	}
	for _, row := range plugins.Registry() {
		out[row.Name] = true
	}
	return out
}

// checkReferences checks all but which plugins are enabled.
func checkReferences(cfg *config.KubeSchedulerConfiguration, known []string) field.ErrorList {
	var errs field.ErrorList
	if n := *cfg.Parallelism; n <= 0 {
		errs = append(errs, field.Invalid(field.NewPath("parallelism"), n,
			"should be an integer value greater than zero"))
	}
	errs = append(errs, checkPercent(field.NewPath("percentageOfNodesToScore"), cfg.PercentageOfNodesToScore)...)
	initial, most := *cfg.PodInitialBackoffSeconds, *cfg.PodMaxBackoffSeconds
	if initial <= 0 {
		errs = append(errs, field.Invalid(field.NewPath("podInitialBackoffSeconds"), initial, "must be greater than 0"))
	}
	if most < initial {
		errs = append(errs, field.Invalid(field.NewPath("podMaxBackoffSeconds"), most,
			"must be greater than or equal to PodInitialBackoffSeconds"))
	}
	errs = append(errs, checkProcess(cfg)...)
	errs = append(errs, checkExtenders(cfg.Extenders)...)
	names := map[string]int{}
	for i := range cfg.Profiles {
		p := &cfg.Profiles[i]
		path := field.NewPath("profiles").Index(i)
		errs = append(errs, checkProfile(path, p, known)...)
		if p.SchedulerName == nil || *p.SchedulerName == "" {
			errs = append(errs, field.Required(path.Child("schedulerName"), ""))
			continue
		}
		if _, twice := names[*p.SchedulerName]; twice {
			errs = append(errs, field.Duplicate(path.Child("schedulerName"), *p.SchedulerName))
		}
		names[*p.SchedulerName] = i
	}
	return errs
}

func checkPercent(path *field.Path, percent *int32) field.ErrorList {
	if percent != nil && (*percent < 0 || *percent > 100) {
		return field.ErrorList{field.Invalid(path, *percent, "not in valid range [0-100]")}
	}
	return nil
}

func checkProfile(path *field.Path, p *config.KubeSchedulerProfile, known []string) field.ErrorList {
	errs := checkPercent(path.Child("percentageOfNodesToScore"), p.PercentageOfNodesToScore)
	return append(errs, checkArgs(path.Child("pluginConfig"), p, knownNames(known))...)
}

// checkSets checks which plugins are enabled where. Before completion the paths are those of the
// file.
func checkSets(cfg *config.KubeSchedulerConfiguration, known []string) field.ErrorList {
	var errs field.ErrorList
	there := knownNames(known)
	for i := range cfg.Profiles {
		p := cfg.Profiles[i].Plugins
		if p == nil {
			continue
		}
		path := field.NewPath("profiles").Index(i).Child("plugins")
		errs = append(errs, checkSet(path.Child("multiPoint"), &p.MultiPoint, there)...)
		for _, point := range ExtensionPoints {
			errs = append(errs, checkSet(path.Child(point.Field), point.Of(p), there)...)
		}
		for name, set := range map[string]config.PluginSet{"placementGenerate": p.PlacementGenerate,
			"placementScore": p.PlacementScore, "podGroupPostFilter": p.PodGroupPostFilter} {
			if len(set.Enabled) > 0 {
				errs = append(errs, field.Forbidden(path.Child(name), "Pod groups are not supported"))
			}
		}
	}
	return errs
}

func checkSet(path *field.Path, s *config.PluginSet, there map[string]bool) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, pl := range s.Enabled {
		at := path.Child("enabled").Index(i)
		switch {
		case pl.Name == "":
			errs = append(errs, field.Required(at.Child("name"), "name the plugin"))
		case !there[pl.Name]:
			errs = append(errs, field.NotFound(at.Child("name"), pl.Name))
		case seen[pl.Name]:
			errs = append(errs, field.Duplicate(at.Child("name"), pl.Name))
		}
		seen[pl.Name] = true
		if pl.Weight != nil && *pl.Weight < 0 {
			errs = append(errs, field.Invalid(at.Child("weight"), *pl.Weight, "must not be negative"))
		}
	}
	return errs
}

func checkArgs(path *field.Path, p *config.KubeSchedulerProfile, exists map[string]bool) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i := range p.PluginConfig {
		c := &p.PluginConfig[i]
		at := path.Index(i)
		if seen[c.Name] {
			errs = append(errs, field.Duplicate(at, c.Name))
		}
		seen[c.Name] = true
		row, builtIn := find(c.Name)
		switch {
		case !exists[c.Name]:
			errs = append(errs, field.NotFound(at.Child("name"), c.Name))
		case builtIn && row.Args == nil:
			errs = append(errs, field.Forbidden(at.Child("args"), fmt.Sprintf("plugin %s takes no arguments", c.Name)))
		case builtIn && c.Args.Object != nil:
			errs = append(errs, row.Args.Validate(at.Child("args"), c.Args.Object)...)
		}
	}
	return errs
}

// find gives the row of a plugin compiled in.
func find(name string) (plugins.Registration, bool) {
	for _, r := range plugins.Registry() {
		if r.Name == name {
			return r, true
		}
	}
	return plugins.Registration{}, false
}
