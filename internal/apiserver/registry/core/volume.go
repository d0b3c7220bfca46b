package core

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func persistentVolumes() resourcedef.Kind {
	t := typed.NewNamespacedTypes[v1.PersistentVolume, v1.PersistentVolumeList]()
	t.Namespaced, t.HasStatus, t.NoGenerate = false, true, true
	return resourcedef.Kind{
		Version: "v1", Resource: "persistentvolumes", Singular: "persistentvolume", Kind: "PersistentVolume",
		Names: resourcedef.Names{Short: []string{"pv"}},
		Types: t,
		Rules: typed.Rules[v1.PersistentVolume]{
			Default: defaultVolume,
			PrepareForCreate: func(_ context.Context, p *v1.PersistentVolume) {
				now := metav1.Now()
				p.Status = v1.PersistentVolumeStatus{Phase: v1.VolumePending, LastPhaseTransitionTime: &now}
			},
			PrepareForStatusUpdate: func(p, old *v1.PersistentVolume) {
				s, previous := &p.Status, &old.Status
				switch {
				case s.Phase == previous.Phase && s.LastPhaseTransitionTime == nil:
					s.LastPhaseTransitionTime = previous.LastPhaseTransitionTime
				case s.Phase != previous.Phase && (s.LastPhaseTransitionTime == nil || s.LastPhaseTransitionTime.Equal(
					previous.LastPhaseTransitionTime)):
					now := metav1.Now()
					s.LastPhaseTransitionTime = &now
				}
			},
			Validate: func(p, old *v1.PersistentVolume) field.ErrorList {
				if old == nil {
					return validateVolume(p)
				}
				return validateVolumeUpdate(p, old)
			},
			Warn:                     warnVolume,
			SelectableFields:         func(p *v1.PersistentVolume) fields.Set { return fields.Set{"name": p.Name} },
			AllowUnconditionalUpdate: true,
		}.Untyped(),
		Table: resourcedef.Table{Columns: volumeColumns(), Row: typed.RowFunc(volumeRow)},
	}
}

func defaultVolume(p *v1.PersistentVolume) {
	if p.Status.Phase == "" {
		p.Status.Phase = v1.VolumePending
	}
	if p.Spec.PersistentVolumeReclaimPolicy == "" {
		p.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain
	}
	if p.Spec.VolumeMode == nil {
		p.Spec.VolumeMode = new(v1.PersistentVolumeFilesystem)
	}
	podspec.RoundResources(p.Spec.Capacity)
	podspec.DefaultVolumeSource(&p.Spec.PersistentVolumeSource)
}

func volumeColumns() []metav1.TableColumnDefinition {
	spec, status := v1.PersistentVolumeSpec{}.SwaggerDoc(), v1.PersistentVolumeStatus{}.SwaggerDoc()
	return append([]metav1.TableColumnDefinition{
		printers.NameColumn(), printers.StringColumn("Capacity", spec["capacity"]),
		printers.StringColumn("Access Modes", spec["accessModes"]),
		printers.StringColumn("Reclaim Policy", spec["persistentVolumeReclaimPolicy"]),
		printers.StringColumn("Status", status["phase"]), printers.StringColumn("Claim", spec["claimRef"]),
		printers.StringColumn("StorageClass", "StorageClass of the pv"),
		printers.StringColumn("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
		printers.StringColumn("Reason", status["reason"]), printers.AgeColumn(),
	}, printers.WideColumns(printers.StringColumn("VolumeMode", spec["volumeMode"]))...)
}

func volumeRow(p *v1.PersistentVolume, opt resourcedef.RowOptions) []any {
	claim := ""
	if r := p.Spec.ClaimRef; r != nil {
		claim = r.Namespace + "/" + r.Name
	}
	phase := string(p.Status.Phase)
	if p.DeletionTimestamp != nil {
		phase = "Terminating"
	}
	size := p.Spec.Capacity[v1.ResourceStorage]
	class := p.Spec.StorageClassName
	if c, ok := p.Annotations[v1.BetaStorageClassAnnotation]; ok {
		class = c
	}
	return []any{
		p.Name, size.String(), modesCell(p.Spec.AccessModes), string(p.Spec.PersistentVolumeReclaimPolicy), phase,
		claim, class,
		orUnset(p.Spec.VolumeAttributesClassName), p.Status.Reason,
		printers.TimestampSince(p.CreationTimestamp, opt.Now), modeCell(p.Spec.VolumeMode),
	}
}

func orUnset(s *string) string {
	if s == nil {
		return "<unset>"
	}
	return *s
}

func modeCell(m *v1.PersistentVolumeMode) string {
	if m == nil {
		return "<unset>"
	}
	return string(*m)
}

// modesCell prints access modes in their short forms, each once, in one order.
func modesCell(modes []v1.PersistentVolumeAccessMode) string {
	var out []string
	for _, m := range []struct {
		mode  v1.PersistentVolumeAccessMode
		short string
	}{{v1.ReadWriteOnce, "RWO"}, {v1.ReadOnlyMany, "ROX"}, {v1.ReadWriteMany, "RWX"}, {v1.ReadWriteOncePod, "RWOP"}} {
		for _, have := range modes {
			if have == m.mode {
				out = append(out, m.short)
				break
			}
		}
	}
	return strings.Join(out, ",")
}
