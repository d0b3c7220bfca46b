package admit

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"

	"github.com/gantry-project/gantry/internal/reason"
)

// features keeps Pods away that need what this kubelet does not do: those that no scheduler has
// evaluated, and those bound by one that does not check this. KEP-5328.
func features(in In) *reason.Refusal {
	if in.Features == nil {
		return nil
	}
	needed, err := ndf.DefaultFramework.InferForPodScheduling(podInfo(in.Pod), version.MajorMinor(1, 37))
	return unmetFeatures(needed, err, in.Features)
}

// CheckUpdate validates a change of a Pod that is here already: it may need what this kubelet does
// not do, where the API server did not look. The Pod stays as it is then; nil has every feature.
// KEP-5328.
func CheckUpdate(old, cur *v1.Pod, declared []string) *reason.Refusal {
	needed, err := ndf.DefaultFramework.InferForPodUpdate(podInfo(old), podInfo(cur), version.MajorMinor(1, 37))
	return unmetFeatures(needed, err, declared)
}

func podInfo(p *v1.Pod) *ndf.PodInfo { return &ndf.PodInfo{Spec: &p.Spec, Status: &p.Status} }

// unmetFeatures compares needs, or the failure to find them out, with what the kubelet declares.
func unmetFeatures(needed ndf.FeatureSet, err error, declared []string) *reason.Refusal {
	refuse := func(detail string) *reason.Refusal {
		return &reason.Refusal{Code: reason.AdmitFeature, Detail: detail,
			Fix: "use a node that declares it in status.declaredFeatures, or do without it"}
	}
	if err != nil {
		return refuse(fmt.Sprintf("Failed to infer pod's feature requirements: %v", err))
	}
	if needed.IsEmpty() {
		return nil
	}
	match, err := ndf.DefaultFramework.MatchNodeFeatureSet(needed, ndf.DefaultFramework.TryMap(declared))
	switch {
	case err != nil:
		return refuse(fmt.Sprintf("Failed to match pod's feature requirements against the node: %v", err))
	case !match.IsMatch:
		return refuse("Pod requires node features that are not available: " + strings.Join(
			match.UnsatisfiedRequirements, ", "))
	}
	return nil
}
