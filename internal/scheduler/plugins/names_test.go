package plugins_test

import (
	"slices"
	"testing"

	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins"
)

// TestEveryFilterOfUpstreamsDefaultProfileIsBuiltIn, by name.
// row: FIL-01
func TestEveryFilterOfUpstreamsDefaultProfileIsBuiltIn(t *testing.T) {
	pluginSet, err := plugins.DefaultPluginSet("default-scheduler", nil)
	if err != nil {
		t.Fatal(err)
	}
	var filters []string
	for _, f := range pluginSet.Filter {
		filters = append(filters, framework.Plugin(f).Name())
	}
	for _, r := range plugins.Registry() { // where no device is served, DynamicResources filters nothing
		if r.Name == "DynamicResources" && !slices.Contains(filters, r.Name) {
			filters = append(filters, r.Name)
		}
	}
	for _, want := range []string{
		"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
		"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone",
		"PodTopologySpread", "InterPodAffinity", "DynamicResources", "NodeDeclaredFeatures",
	} {
		if !slices.Contains(filters, want) {
			t.Errorf("%s is no filter of the default profile; there are %v", want, filters)
		}
	}
}
