package apps

import (
	"context"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func replicaSets() resourcedef.Kind {
	k := newKind("replicasets", "replicaset", "ReplicaSet", "rs")
	k.Types = typed.NewNamespacedTypes[appsv1.ReplicaSet, appsv1.ReplicaSetList]()
	k.Types.HasStatus = true
	k.Rules = typed.Rules[appsv1.ReplicaSet]{
		Default: func(r *appsv1.ReplicaSet) {
			podspec.DefaultPodTemplate(&r.Spec.Template)
			typed.SetDefault(&r.Spec.Replicas, 1)
		},
		PrepareForCreate: func(_ context.Context, r *appsv1.ReplicaSet) {
			podspec.DropDisabledTemplate(&r.Spec.Template, nil)
		},
		PrepareForUpdate: func(r, previous *appsv1.ReplicaSet) {
			podspec.DropDisabledTemplate(&r.Spec.Template, &previous.Spec.Template)
		},
		Validate:       checkReplicaSet,
		ValidateStatus: checkReplicaSetStatus,
		Warn: func(r *appsv1.ReplicaSet) []string {
			return append(podspec.WarnWorkloadName(r.Name), warn(&r.Spec.Template)...)
		},
		WarnUpdate: func(r, previous *appsv1.ReplicaSet) []string {
			return warnChanged(&r.Spec.Template, r.Generation, previous.Generation)
		},
		SelectableFields: func(r *appsv1.ReplicaSet) fields.Set {
			return fields.Set{"status.replicas": strconv.Itoa(int(r.Status.Replicas))}
		},
		AllowUnconditionalUpdate: true,
	}.Untyped()
	k.Table = resourcedef.Table{Columns: replicaSetColumns(), Row: typed.RowFunc(replicaSetRow)}
	return k
}

func replicaSetColumns() []metav1.TableColumnDefinition {
	spec, status := appsv1.ReplicaSetSpec{}.SwaggerDoc(), appsv1.ReplicaSetStatus{}.SwaggerDoc()
	return append([]metav1.TableColumnDefinition{
		printers.NameColumn(), printers.IntColumn("Desired", spec["replicas"]),
		printers.IntColumn("Current", status["replicas"]), printers.IntColumn("Ready", status["readyReplicas"]),
		printers.AgeColumn(),
	}, printers.TemplateColumns(spec["selector"])...)
}

func replicaSetRow(r *appsv1.ReplicaSet, o resourcedef.RowOptions) []any {
	names, images := printers.LayoutContainerCells(r.Spec.Template.Spec.Containers)
	return []any{
		r.Name, int64(typed.Deref(r.Spec.Replicas)), int64(r.Status.Replicas), int64(r.Status.ReadyReplicas),
		printers.TimestampSince(r.CreationTimestamp, o.Now),
		names, images, printers.FormatLabelSelector(r.Spec.Selector),
	}
}

func checkReplicaSet(r, previous *appsv1.ReplicaSet) field.ErrorList {
	var f typed.Errors
	s := &r.Spec
	f.NotNegative(spec().Child("replicas"), int64(typed.Deref(s.Replicas)))
	f.NotNegative(spec().Child("minReadySeconds"), int64(s.MinReadySeconds))
	workloadRules{s.Selector, &s.Template, "deployment", "ReplicaSet", "invalid label selector"}.check(&f)
	if previous != nil {
		f.Immutable(spec().Child("selector"), s.Selector, previous.Spec.Selector)
	}
	return f.List()
}

func checkReplicaSetStatus(r, _ *appsv1.ReplicaSet) field.ErrorList {
	var f typed.Errors
	s := &r.Status
	counts := replicaCounts{s.Replicas, []part{{"fullyLabeledReplicas", s.FullyLabeledReplicas},
		{"readyReplicas", s.ReadyReplicas}, {"availableReplicas", s.AvailableReplicas}}}
	counts.notNegative(&f)
	f.NotNegative(status().Child("observedGeneration"), s.ObservedGeneration)
	f.NotNegativeIf(status().Child("terminatingReplicas"), s.TerminatingReplicas)
	counts.atMostReplicas(&f)
	f.NotGreater(status().Child("availableReplicas"), s.AvailableReplicas, s.ReadyReplicas,
		"cannot be greater than readyReplicas")
	return f.List()
}
