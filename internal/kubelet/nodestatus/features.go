package nodestatus

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/nodedeclaredfeatures/types"
)

// features are what this kubelet does of the features that nodes declare (KEP-5328); no gate turns
// them off. Every other one is false because it does not do it.
func features() types.FeatureGateMap {
	return types.FeatureGateMap{
		"RestartAllContainersOnContainerExits":    true, // podplan/restartall.go
		"InPlacePodLevelResourcesVerticalScaling": true, // podplan/resize.go
		// podplan/resize.go
		"InPlacePodVerticalScalingInitContainers": true,
		"ExtendWebSocketsToKubelet":               true, // serve/streams.go
	}
}

// Declared are the features that a kubelet of the release declares, sorted, as long as the release
// has to know of them.
func Declared(release string) []string {
	v, err := version.ParseGeneric(release)
	if err != nil {
		v = nil // a development version knows all of them
	}
	return ndf.DefaultFramework.DiscoverNodeFeatures(&ndf.NodeConfiguration{FeatureGates: features(), Version: v})
}

func setFeatures(s *v1.NodeStatus, f Facts) { s.DeclaredFeatures = Declared(f.KubeletVersion) }
