package core

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func persistentVolumeClaims() resourcedef.Kind {
	t := typed.NewNamespacedTypes[v1.PersistentVolumeClaim, v1.PersistentVolumeClaimList]()
	t.HasStatus, t.NoGenerate = true, true
	return resourcedef.Kind{
		Version: "v1", Resource: "persistentvolumeclaims", Singular: "persistentvolumeclaim",
		Kind:  "PersistentVolumeClaim",
		Names: resourcedef.Names{Short: []string{"pvc"}},
		Types: t,
		Rules: typed.Rules[v1.PersistentVolumeClaim]{
			Default: defaultClaim,
			PrepareForCreate: func(_ context.Context, c *v1.PersistentVolumeClaim) {
				c.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending}
				dropCrossNamespace(c, nil)
				dropCrossNamespaceSource(&c.Spec)
				podspec.CopyDataSource(&c.Spec)
			},
			PrepareForUpdate: func(c, old *v1.PersistentVolumeClaim) {
				dropCrossNamespace(c, old)
				if old.Spec.DataSource == nil && old.Spec.DataSourceRef == nil {
					dropCrossNamespaceSource(&c.Spec)
				}
				podspec.CopyDataSource(&c.Spec)
			},
			Validate: func(c, old *v1.PersistentVolumeClaim) field.ErrorList {
				if old == nil {
					return podspec.ValidateClaim(&c.Spec, field.NewPath("spec"))
				}
				return validateClaimUpdate(c, old)
			},
			PrepareForStatusUpdate: func(c, old *v1.PersistentVolumeClaim) {
				if old.Status.HealthStatus == nil { // gate CSIVolumeHealth, alpha
					c.Status.HealthStatus = nil
				}
			},
			ValidateStatus: validateClaimStatus,
			Warn:           warnClaim,
			SelectableFields: func(c *v1.PersistentVolumeClaim) fields.Set {
				return fields.Set{"name": c.Name}
			},
			AllowUnconditionalUpdate: true,
		}.Untyped(),
		Table: resourcedef.Table{Columns: claimColumns(), Row: typed.RowFunc(claimRow)},
	}
}

func defaultClaim(c *v1.PersistentVolumeClaim) {
	if c.Status.Phase == "" {
		c.Status.Phase = v1.ClaimPending
	}
	podspec.DefaultClaimSpec(&c.Spec)
}

// dropCrossNamespace removes a data source in another namespace (alpha, off), with the reference
// that carries it, unless the stored claim has one: then it is validated.
func dropCrossNamespace(c, old *v1.PersistentVolumeClaim) {
	r := c.Spec.DataSourceRef
	if r == nil || r.Namespace == nil || *r.Namespace == "" {
		return
	}
	if old != nil && old.Spec.DataSourceRef != nil {
		return
	}
	c.Spec.DataSourceRef = nil
}

// dropCrossNamespaceSource removes a data source that is neither a claim nor a snapshot: only
// dataSourceRef may name anything else.
func dropCrossNamespaceSource(s *v1.PersistentVolumeClaimSpec) {
	d := s.DataSource
	if d == nil || s.DataSourceRef != nil {
		return
	}
	group := ""
	if d.APIGroup != nil {
		group = *d.APIGroup
	}
	if claim, snapshot := group == "" && d.Kind == "PersistentVolumeClaim",
		group == "snapshot.storage.k8s.io" && d.Kind == "VolumeSnapshot"; !claim && !snapshot {
		s.DataSource = nil
	}
}

func claimColumns() []metav1.TableColumnDefinition {
	spec, status := v1.PersistentVolumeClaimSpec{}.SwaggerDoc(), v1.PersistentVolumeClaimStatus{}.SwaggerDoc()
	return append([]metav1.TableColumnDefinition{
		printers.NameColumn(), printers.StringColumn("Status", status["phase"]),
		printers.StringColumn("Volume", spec["volumeName"]), printers.StringColumn("Capacity", status["capacity"]),
		printers.StringColumn("Access Modes", status["accessModes"]),
		printers.StringColumn("StorageClass", "StorageClass of the pvc"),
		printers.StringColumn("VolumeAttributesClass", "VolumeAttributesClass of the pvc"), printers.AgeColumn(),
	}, printers.WideColumns(printers.StringColumn("VolumeMode", spec["volumeMode"]))...)
}

func claimRow(c *v1.PersistentVolumeClaim, opt resourcedef.RowOptions) []any {
	phase := string(c.Status.Phase)
	if c.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	capacity, modes := "", ""
	if c.Spec.VolumeName != "" {
		size := c.Status.Capacity[v1.ResourceStorage]
		capacity, modes = size.String(), modesCell(c.Status.AccessModes)
	}
	class := ""
	if c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	if a, ok := c.Annotations[v1.BetaStorageClassAnnotation]; ok {
		class = a
	}
	return []any{
		c.Name, phase, c.Spec.VolumeName, capacity, modes, class, orUnset(c.Spec.VolumeAttributesClassName),
		printers.TimestampSince(c.CreationTimestamp, opt.Now), modeCell(c.Spec.VolumeMode),
	}
}
