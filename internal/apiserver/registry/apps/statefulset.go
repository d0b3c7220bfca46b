package apps

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func statefulSets() resourcedef.Kind {
	k := newKind("statefulsets", "statefulset", "StatefulSet", "sts")
	k.Types = typed.NewNamespacedTypes[appsv1.StatefulSet, appsv1.StatefulSetList]()
	k.Types.HasStatus = true
	k.Rules = typed.Rules[appsv1.StatefulSet]{
		ValidateName: apivalidation.NameIsDNSLabel,
		Default:      defaultStatefulSet,
		PrepareForCreate: func(_ context.Context, s *appsv1.StatefulSet) {
			podspec.DropDisabledTemplate(&s.Spec.Template, nil)
		},
		PrepareForUpdate: func(s, previous *appsv1.StatefulSet) {
			podspec.DropDisabledTemplate(&s.Spec.Template, &previous.Spec.Template)
		},
		Validate:       checkStatefulSet,
		ValidateStatus: checkStatefulSetStatus,
		Warn: func(s *appsv1.StatefulSet) []string {
			return append(warn(&s.Spec.Template), warnClaims(s, "")...)
		},
		WarnUpdate: func(s, previous *appsv1.StatefulSet) []string {
			return append(warnChanged(&s.Spec.Template, s.Generation, previous.Generation), warnClaims(s, "Spec")...)
		},
		AllowUnconditionalUpdate: true,
	}.Untyped()
	k.Table = resourcedef.Table{
		Columns: append([]metav1.TableColumnDefinition{
			printers.NameColumn(), printers.StringColumn("Ready", "Number of the pod with ready state"),
			printers.AgeColumn(),
		}, printers.TemplateColumns("")[:2]...),
		Row: typed.RowFunc(statefulSetRow),
	}
	return k
}

func defaultStatefulSet(o *appsv1.StatefulSet) {
	s := &o.Spec
	podspec.DefaultPodTemplate(&s.Template)
	for i := range s.VolumeClaimTemplates {
		c := &s.VolumeClaimTemplates[i]
		c.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
		podspec.DefaultClaimSpec(&c.Spec)
		typed.SetDefaultString(&c.Status.Phase, corev1.ClaimPending)
	}
	typed.SetDefaultString(&s.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	typed.SetDefaultString(&s.UpdateStrategy.Type, appsv1.RollingUpdateStatefulSetStrategyType)
	if s.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		typed.SetDefault(&s.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateStatefulSetStrategy{})
		typed.SetDefault(&s.UpdateStrategy.RollingUpdate.Partition, 0)
		typed.SetDefault(&s.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
	}
	typed.SetDefault(&s.PersistentVolumeClaimRetentionPolicy, appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{})
	typed.SetDefaultString(&s.PersistentVolumeClaimRetentionPolicy.WhenDeleted,
		appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	typed.SetDefaultString(&s.PersistentVolumeClaimRetentionPolicy.WhenScaled,
		appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	typed.SetDefault(&s.Replicas, 1)
	typed.SetDefault(&s.RevisionHistoryLimit, 10)
}

// warnClaims tells of claim templates, each called child of its index as upstream does, and of
// revisions that are kept for good.
func warnClaims(s *appsv1.StatefulSet, child string) []string {
	var out []string
	for i := range s.Spec.VolumeClaimTemplates {
		path := spec().Child("volumeClaimTemplates").Index(i)
		if child != "" {
			path = path.Child(child)
		}
		out = append(out, podspec.WarnClaim(&s.Spec.VolumeClaimTemplates[i].Spec, path)...)
	}
	if typed.Deref(s.Spec.RevisionHistoryLimit) < 0 {
		out = append(out,
			"spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return out
}

func statefulSetRow(s *appsv1.StatefulSet, o resourcedef.RowOptions) []any {
	names, images := printers.LayoutContainerCells(s.Spec.Template.Spec.Containers)
	return []any{s.Name, fmt.Sprintf("%d/%d", s.Status.ReadyReplicas, typed.Deref(s.Spec.Replicas)),
		printers.TimestampSince(s.CreationTimestamp, o.Now), names, images}
}
