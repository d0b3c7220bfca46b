package plain

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

// Storage are the rows of storage.k8s.io/v1.
func Storage() []kind.Kind {
	return []kind.Kind{storageClasses(), csiDrivers(), csiNodes(), csiCapacities(), volumeAttachments(), attributesClasses()}
}

func storageKind(resource, kindName string, t kind.Types, short ...string) kind.Kind {
	t.NoGenerate = true
	return kind.Kind{
		Group: storagev1.GroupName, Version: "v1", Resource: resource, Singular: strings.ToLower(kindName), Kind: kindName,
		Names: kind.Names{Short: short}, Types: t,
	}
}

func boolColumn(name, doc string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "boolean", Description: doc}
}

func storageClasses() kind.Kind {
	doc := storagev1.StorageClass{}.SwaggerDoc()
	k := storageKind("storageclasses", "StorageClass", types[storagev1.StorageClass, storagev1.StorageClassList](), "sc")
	k.Rules.AllowUnconditionalUpdate = true
	k.Rules.Default = func(o runtime.Object) {
		c := o.(*storagev1.StorageClass)
		orElse(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
		orElse(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
	}
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Def("Provisioner", doc["provisioner"]), column.Def("ReclaimPolicy", doc["reclaimPolicy"]),
			column.Def("VolumeBindingMode", doc["volumeBindingMode"]), column.Def("AllowVolumeExpansion", doc["allowVolumeExpansion"]), column.Age(),
		},
		Row: row(func(c *storagev1.StorageClass, o kind.RowOptions) []any {
			name := c.Name
			if c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" || c.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true" {
				name += " (default)"
			}
			reclaim, mode := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingImmediate
			if c.ReclaimPolicy != nil {
				reclaim = *c.ReclaimPolicy
			}
			if c.VolumeBindingMode != nil {
				mode = *c.VolumeBindingMode
			}
			expand := c.AllowVolumeExpansion != nil && *c.AllowVolumeExpansion
			return []any{name, c.Provisioner, string(reclaim), string(mode), expand, column.Since(c.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

func csiDrivers() kind.Kind {
	doc := storagev1.CSIDriverSpec{}.SwaggerDoc()
	k := storageKind("csidrivers", "CSIDriver", types[storagev1.CSIDriver, storagev1.CSIDriverList]())
	k.Rules.Default = func(o runtime.Object) {
		s := &o.(*storagev1.CSIDriver).Spec
		orElse(&s.AttachRequired, true)
		orElse(&s.PodInfoOnMount, false)
		orElse(&s.StorageCapacity, false)
		orElse(&s.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
		if len(s.VolumeLifecycleModes) == 0 {
			s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
		}
		orElse(&s.RequiresRepublish, false)
		orElse(&s.SELinuxMount, false)
	}
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), boolColumn("AttachRequired", doc["attachRequired"]), boolColumn("PodInfoOnMount", doc["podInfoOnMount"]),
			boolColumn("StorageCapacity", doc["storageCapacity"]), column.Def("TokenRequests", doc["tokenRequests"]),
			boolColumn("RequiresRepublish", doc["requiresRepublish"]), column.Def("Modes", doc["volumeLifecycleModes"]), column.Age(),
		},
		Row: row(func(d *storagev1.CSIDriver, o kind.RowOptions) []any {
			yes := func(b *bool, unset bool) bool {
				if b == nil {
					return unset
				}
				return *b
			}
			var modes, tokens []string
			for _, m := range d.Spec.VolumeLifecycleModes {
				modes = append(modes, string(m))
			}
			for _, t := range d.Spec.TokenRequests {
				tokens = append(tokens, t.Audience)
			}
			orUnset := func(l []string, unset string) string {
				if len(l) == 0 {
					return unset
				}
				return strings.Join(l, ",")
			}
			return []any{
				d.Name, yes(d.Spec.AttachRequired, true), yes(d.Spec.PodInfoOnMount, false), yes(d.Spec.StorageCapacity, false),
				orUnset(tokens, "<unset>"), yes(d.Spec.RequiresRepublish, false), orUnset(modes, "<none>"), column.Since(d.CreationTimestamp, o.Now),
			}
		}),
	}
	return k
}

func csiNodes() kind.Kind {
	k := storageKind("csinodes", "CSINode", types[storagev1.CSINode, storagev1.CSINodeList]())
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{column.Name(), column.Int("Drivers", "Drivers indicates the number of CSI drivers registered on the node"), column.Age()},
		Row: row(func(n *storagev1.CSINode, o kind.RowOptions) []any {
			return []any{n.Name, int64(len(n.Spec.Drivers)), column.Since(n.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

func csiCapacities() kind.Kind {
	doc := storagev1.CSIStorageCapacity{}.SwaggerDoc()
	k := storageKind("csistoragecapacities", "CSIStorageCapacity", types[storagev1.CSIStorageCapacity, storagev1.CSIStorageCapacityList]())
	k.Types.Namespaced = true
	k.Rules.AllowUnconditionalUpdate = true
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Def("StorageClassName", doc["storageClassName"]), column.Def("Capacity", doc["capacity"]),
		},
		Row: row(func(c *storagev1.CSIStorageCapacity, _ kind.RowOptions) []any {
			capacity := "<unset>"
			if c.Capacity != nil {
				capacity = c.Capacity.String()
			}
			return []any{c.Name, c.StorageClassName, capacity}
		}),
	}
	return k
}

func volumeAttachments() kind.Kind {
	spec, status := storagev1.VolumeAttachmentSpec{}.SwaggerDoc(), storagev1.VolumeAttachmentStatus{}.SwaggerDoc()
	k := storageKind("volumeattachments", "VolumeAttachment", types[storagev1.VolumeAttachment, storagev1.VolumeAttachmentList]())
	k.Types.HasStatus = true
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), {Name: "Attacher", Type: "string", Format: "name", Description: spec["attacher"]},
			column.Def("PV", storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"]),
			column.Def("Node", spec["nodeName"]), boolColumn("Attached", status["attached"]), column.Age(),
		},
		Row: row(func(v *storagev1.VolumeAttachment, o kind.RowOptions) []any {
			pv := ""
			if v.Spec.Source.PersistentVolumeName != nil {
				pv = *v.Spec.Source.PersistentVolumeName
			}
			return []any{v.Name, v.Spec.Attacher, pv, v.Spec.NodeName, v.Status.Attached, column.Since(v.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

func attributesClasses() kind.Kind {
	k := storageKind("volumeattributesclasses", "VolumeAttributesClass", types[storagev1.VolumeAttributesClass, storagev1.VolumeAttributesClassList](), "vac")
	k.Rules.AllowUnconditionalUpdate = true
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Def("DriverName", storagev1.VolumeAttributesClass{}.SwaggerDoc()["driverName"]), column.Age(),
		},
		Row: row(func(c *storagev1.VolumeAttributesClass, o kind.RowOptions) []any {
			name := c.Name
			if c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
				name += " (default)"
			}
			return []any{name, c.DriverName, column.Since(c.CreationTimestamp, o.Now)}
		}),
	}
	return k
}
