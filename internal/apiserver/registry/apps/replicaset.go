package apps

import (
	"context"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
	"github.com/gantry-project/gantry/internal/apiserver/registry/template"
)

func replicaSets() kind.Kind {
	k := names("replicasets", "replicaset", "ReplicaSet", "rs")
	k.Types = row.InNamespace[appsv1.ReplicaSet, appsv1.ReplicaSetList]()
	k.Types.HasStatus = true
	k.Rules = row.Rules[appsv1.ReplicaSet]{
		Default: func(r *appsv1.ReplicaSet) {
			template.DefaultPodTemplate(&r.Spec.Template)
			row.OrElse(&r.Spec.Replicas, 1)
		},
		Create:      func(_ context.Context, r *appsv1.ReplicaSet) { template.DropDisabledTemplate(&r.Spec.Template, nil) },
		Update:      func(r, was *appsv1.ReplicaSet) { template.DropDisabledTemplate(&r.Spec.Template, &was.Spec.Template) },
		Check:       checkReplicaSet,
		CheckStatus: checkReplicaSetStatus,
		Warn:        func(r *appsv1.ReplicaSet) []string { return append(warnName(r.Name), warn(&r.Spec.Template)...) },
		Fields: func(r *appsv1.ReplicaSet) fields.Set {
			return fields.Set{"status.replicas": strconv.Itoa(int(r.Status.Replicas))}
		},
		Unconditional: true,
	}.Rules()
	k.Table = kind.Table{Columns: replicaSetColumns(), Row: row.Cells(replicaSetRow)}
	return k
}

func replicaSetColumns() []metav1.TableColumnDefinition {
	spec, status := appsv1.ReplicaSetSpec{}.SwaggerDoc(), appsv1.ReplicaSetStatus{}.SwaggerDoc()
	return append([]metav1.TableColumnDefinition{
		column.Name(), column.Int("Desired", spec["replicas"]), column.Int("Current", status["replicas"]), column.Int("Ready", status["readyReplicas"]), column.Age(),
	}, templateColumns(spec["selector"])...)
}

func replicaSetRow(r *appsv1.ReplicaSet, o kind.RowOptions) []any {
	names, images := column.Containers(r.Spec.Template.Spec.Containers)
	return []any{
		r.Name, int64(row.Value(r.Spec.Replicas)), int64(r.Status.Replicas), int64(r.Status.ReadyReplicas), column.Since(r.CreationTimestamp, o.Now),
		names, images, column.Selector(r.Spec.Selector),
	}
}

func checkReplicaSet(r, was *appsv1.ReplicaSet) field.ErrorList {
	var f row.Findings
	s := &r.Spec
	f.NotNegative(spec().Child("replicas"), int64(row.Value(s.Replicas)))
	f.NotNegative(spec().Child("minReadySeconds"), int64(s.MinReadySeconds))
	workload{s.Selector, &s.Template, "deployment", "ReplicaSet", "invalid label selector"}.check(&f)
	if was != nil {
		f.Same(spec().Child("selector"), s.Selector, was.Spec.Selector)
	}
	return f.List()
}

func checkReplicaSetStatus(r, _ *appsv1.ReplicaSet) field.ErrorList {
	var f row.Findings
	s := &r.Status
	counts := replicaCounts{s.Replicas, []part{{"fullyLabeledReplicas", s.FullyLabeledReplicas}, {"readyReplicas", s.ReadyReplicas}, {"availableReplicas", s.AvailableReplicas}}}
	counts.notNegative(&f)
	f.NotNegative(status().Child("observedGeneration"), s.ObservedGeneration)
	f.NotNegativeIf(status().Child("terminatingReplicas"), s.TerminatingReplicas)
	counts.atMostReplicas(&f)
	f.NotGreater(status().Child("availableReplicas"), s.AvailableReplicas, s.ReadyReplicas, "cannot be greater than readyReplicas")
	return f.List()
}
