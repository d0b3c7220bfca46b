package apps

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
	"github.com/gantry-project/gantry/internal/apiserver/registry/template"
)

func statefulSets() kind.Kind {
	k := names("statefulsets", "statefulset", "StatefulSet", "sts")
	k.Types = row.InNamespace[appsv1.StatefulSet, appsv1.StatefulSetList]()
	k.Types.HasStatus = true
	k.Rules = row.Rules[appsv1.StatefulSet]{
		Name:          apivalidation.NameIsDNSLabel,
		Default:       defaultStatefulSet,
		Create:        func(_ context.Context, s *appsv1.StatefulSet) { template.DropDisabledTemplate(&s.Spec.Template, nil) },
		Update:        func(s, was *appsv1.StatefulSet) { template.DropDisabledTemplate(&s.Spec.Template, &was.Spec.Template) },
		Check:         checkStatefulSet,
		CheckStatus:   checkStatefulSetStatus,
		Warn:          warnStatefulSet,
		Unconditional: true,
	}.Rules()
	k.Table = kind.Table{
		Columns: append([]metav1.TableColumnDefinition{
			column.Name(), column.Def("Ready", "Number of the pod with ready state"), column.Age(),
		}, templateColumns("")[:2]...),
		Row: row.Cells(statefulSetRow),
	}
	return k
}

func defaultStatefulSet(o *appsv1.StatefulSet) {
	s := &o.Spec
	template.DefaultPodTemplate(&s.Template)
	for i := range s.VolumeClaimTemplates {
		c := &s.VolumeClaimTemplates[i]
		c.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
		template.DefaultClaimSpec(&c.Spec)
		row.OrText(&c.Status.Phase, corev1.ClaimPending)
	}
	row.OrText(&s.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	row.OrText(&s.UpdateStrategy.Type, appsv1.RollingUpdateStatefulSetStrategyType)
	if s.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		row.OrElse(&s.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
		row.OrElse(&s.UpdateStrategy.RollingUpdate.Partition, 0)
		row.OrElse(&s.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
	}
	row.OrElse(&s.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	row.OrText(&s.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	row.OrText(&s.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	row.OrElse(&s.Replicas, 1)
	row.OrElse(&s.RevisionHistoryLimit, 10)
}

func warnStatefulSet(s *appsv1.StatefulSet) []string {
	out := warn(&s.Spec.Template)
	if row.Value(s.Spec.RevisionHistoryLimit) < 0 {
		out = append(out, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return out
}

func statefulSetRow(s *appsv1.StatefulSet, o kind.RowOptions) []any {
	names, images := column.Containers(s.Spec.Template.Spec.Containers)
	return []any{s.Name, fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, row.Value(s.Spec.Replicas)), column.Since(s.CreationTimestamp, o.Now), names, images}
}
