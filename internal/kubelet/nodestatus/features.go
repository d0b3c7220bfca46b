package nodestatus

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/nodedeclaredfeatures/types"
)

// features are what this kubelet does of the features that nodes declare (KEP-5328); no gate turns them off. Every other one is false because it does not do it.
func features() types.FeatureGateMap {
	return types.FeatureGateMap{
		"RestartAllContainersOnContainerExits":    true, // podplan/restartall.go
		"InPlacePodLevelResourcesVerticalScaling": true, // podplan/resize.go
		"ExtendWebSocketsToKubelet":               true, // serve/streams.go
	}
}

// setFeatures declares them, sorted, as long as the release has to know of them.
func setFeatures(s *v1.NodeStatus, f Facts) {
	release, err := version.ParseGeneric(f.KubeletVersion)
	if err != nil {
		release = nil // a development version knows all of them
	}
	s.DeclaredFeatures = ndf.DefaultFramework.DiscoverNodeFeatures(&ndf.NodeConfiguration{FeatureGates: features(), Version: release})
}
