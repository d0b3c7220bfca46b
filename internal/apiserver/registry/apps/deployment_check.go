package apps

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func dropDeployment(_ context.Context, d *appsv1.Deployment) {
	podspec.DropDisabledTemplate(&d.Spec.Template, nil)
}

func checkDeployment(d, previous *appsv1.Deployment) field.ErrorList {
	var f typed.Errors
	s := &d.Spec
	f.NotNegative(spec().Child("replicas"), int64(typed.Deref(s.Replicas)))
	workloadRules{s.Selector, &s.Template, "deployment", "ReplicaSet", "invalid label selector"}.check(&f)
	checkStrategy(&f, &s.Strategy)
	f.NotNegative(spec().Child("minReadySeconds"), int64(s.MinReadySeconds))
	f.NotNegativeIf(spec().Child("revisionHistoryLimit"), s.RevisionHistoryLimit)
	if n, path := s.ProgressDeadlineSeconds, spec().Child("progressDeadlineSeconds"); n != nil {
		f.NotNegative(path, int64(*n))
		if *n <= s.MinReadySeconds {
			f.Invalid(path, *n, "must be greater than minReadySeconds")
		}
	}
	if previous != nil {
		f.Immutable(spec().Child("selector"), s.Selector, previous.Spec.Selector)
	}
	return f.List()
}

func checkStrategy(f *typed.Errors, s *appsv1.DeploymentStrategy) {
	path := spec().Child("strategy")
	rolling := path.Child("rollingUpdate")
	switch r := s.RollingUpdate; {
	case s.Type == appsv1.RecreateDeploymentStrategyType:
		if r != nil {
			f.Forbidden(rolling, "may not be specified when strategy `type` is 'Recreate'")
		}
	case s.Type != appsv1.RollingUpdateDeploymentStrategyType:
		f.Add(field.NotSupported(path, typed.GoFields(s),
			[]appsv1.DeploymentStrategyType{appsv1.RecreateDeploymentStrategyType,
				appsv1.RollingUpdateDeploymentStrategyType}))
	case r == nil:
		f.Required(rolling, "this should be defaulted and never be nil")
	default:
		unavailable, surge := typed.Deref(r.MaxUnavailable), typed.Deref(r.MaxSurge)
		f.IntOrPercent(rolling.Child("maxUnavailable"), unavailable)
		f.IntOrPercent(rolling.Child("maxSurge"), surge)
		if typed.IntOrPercentValue(&unavailable) == 0 && typed.IntOrPercentValue(&surge) == 0 {
			f.Invalid(rolling.Child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0")
		}
		f.NotMoreThan100Percent(rolling.Child("maxUnavailable"), unavailable)
	}
}

func checkDeploymentStatus(d, previous *appsv1.Deployment) field.ErrorList {
	var f typed.Errors
	s := &d.Status
	f.NotNegative(status().Child("observedGeneration"), s.ObservedGeneration)
	counts := replicaCounts{s.Replicas, []part{{"updatedReplicas", s.UpdatedReplicas},
		{"readyReplicas", s.ReadyReplicas}, {"availableReplicas", s.AvailableReplicas}}}
	counts.notNegative(&f)
	f.NotNegative(status().Child("unavailableReplicas"), int64(s.UnavailableReplicas))
	f.NotNegativeIf(status().Child("terminatingReplicas"), s.TerminatingReplicas)
	f.NotNegativeIf(status().Child("collisionCount"), s.CollisionCount)
	counts.atMostReplicas(&f)
	f.NotGreater(status().Child("availableReplicas"), s.AvailableReplicas, s.ReadyReplicas,
		"cannot be greater than readyReplicas")
	f.NotDecremented(status().Child("collisionCount"), s.CollisionCount, previous.Status.CollisionCount)
	return f.List()
}
