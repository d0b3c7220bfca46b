package scheduler

import (
	"slices"

	config "k8s.io/kube-scheduler/config/v1"
)

// ignoreExtenderResources has NodeResourcesFit of a profile ignore the resources that extenders
// manage alone (ignoredByScheduler).
func ignoreExtenderResources(p *config.KubeSchedulerProfile, extenders []config.Extender) {
	for i := range p.PluginConfig {
		args, ok := p.PluginConfig[i].Args.Object.(*config.NodeResourcesFitArgs)
		if !ok {
			continue
		}
		for _, x := range extenders {
			for _, r := range x.ManagedResources {
				if r.IgnoredByScheduler && !slices.Contains(args.IgnoredResources, r.Name) {
					args.IgnoredResources = append(args.IgnoredResources, r.Name)
				}
			}
		}
	}
}
