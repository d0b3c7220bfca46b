// Command gates prints the feature gates that upstream's kubelet knows, as
// internal/kubelet/config/gates.txt lists them: name, stage, default, and whether it is locked.
// Those of logging are left out: they come from component-base.
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	metricsfeatures "k8s.io/component-base/metrics/features"
	controllerfeatures "k8s.io/controller-manager/pkg/features"
	_ "k8s.io/kubernetes/pkg/features"
)

var stages = map[any]string{featuregate.Alpha: "Alpha", featuregate.Beta: "Beta", featuregate.GA: "GA",
	featuregate.Deprecated: "Deprecated"}

func main() {
	known, logging := utilfeature.DefaultMutableFeatureGate, featuregate.NewFeatureGate()
	if err := errors.Join(logsapi.AddFeatureGates(logging), metricsfeatures.AddFeatureGates(known),
		controllerfeatures.SetupCurrentKubernetesSpecificFeatureGates(known)); err != nil {
		fmt.Fprintln(os.Stderr, "gates:", err)
		os.Exit(1)
	}
	all := known.GetAll()
	for name := range logging.GetAll() {
		delete(all, name)
	}
	var names []featuregate.Feature
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		s := all[name]
		fmt.Printf("%s %s %s%s\n", name, stages[s.PreRelease], either(s.Default, "on", "off"),
			either(s.LockToDefault, " locked", ""))
	}
}

func either(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}
