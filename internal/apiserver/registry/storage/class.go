package storage

import (
	"context"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
)

// Limits of a class's parameters.
const (
	mostParameters    = 512
	longestParameters = 256 * 1024
)

func classes() kind.Kind {
	doc := storagev1.StorageClass{}.SwaggerDoc()
	k := names("storageclasses", "StorageClass", row.Types[storagev1.StorageClass, storagev1.StorageClassList](), "sc")
	k.Rules = row.Rules[storagev1.StorageClass]{
		Default: func(c *storagev1.StorageClass) {
			row.OrElse(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
			row.OrElse(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
		},
		Check:         checkClass,
		Unconditional: true,
	}.Rules()
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Def("Provisioner", doc["provisioner"]), column.Def("ReclaimPolicy", doc["reclaimPolicy"]),
			column.Def("VolumeBindingMode", doc["volumeBindingMode"]), column.Def("AllowVolumeExpansion", doc["allowVolumeExpansion"]), column.Age(),
		},
		Row:   row.Cells(classRow),
		RowOf: classRows,
	}
	return k
}

// classRows prints the classes of a list: only there is the one marked that claims get which name none, the youngest of those that say so.
func classRows(list runtime.Object) func(runtime.Object, kind.RowOptions) []any {
	var usual *storagev1.StorageClass
	items := list.(*storagev1.StorageClassList).Items
	for i := range items {
		if c := &items[i]; wantsAll(c.Annotations) && (usual == nil || c.CreationTimestamp.After(usual.CreationTimestamp.Time) ||
			c.CreationTimestamp.Equal(&usual.CreationTimestamp) && c.Name < usual.Name) {
			usual = c
		}
	}
	return row.Cells(func(c *storagev1.StorageClass, o kind.RowOptions) []any {
		cells := classRow(c, o)
		if usual != nil && c.Name == usual.Name {
			cells[0] = c.Name + " (default)"
		}
		return cells
	})
}

func classRow(c *storagev1.StorageClass, o kind.RowOptions) []any {
	reclaim, mode := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingImmediate
	if c.ReclaimPolicy != nil {
		reclaim = *c.ReclaimPolicy
	}
	if c.VolumeBindingMode != nil {
		mode = *c.VolumeBindingMode
	}
	return []any{c.Name, c.Provisioner, string(reclaim), string(mode), row.Value(c.AllowVolumeExpansion), column.Since(c.CreationTimestamp, o.Now)}
}

// wantsAll says that a class asks to be that of claims that name none.
func wantsAll(annotations map[string]string) bool {
	return annotations["storageclass.kubernetes.io/is-default-class"] == "true" || annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true"
}

func checkClass(c, was *storagev1.StorageClass) field.ErrorList {
	var f row.Findings
	provisioner, parameters := field.NewPath("provisioner"), field.NewPath("parameters")
	reclaim, mode := field.NewPath("reclaimPolicy"), field.NewPath("volumeBindingMode")
	if c.Provisioner != "" {
		checkProvisioner(&f, provisioner, c.Provisioner)
	}
	checkParameters(&f, parameters, c.Parameters)
	if p := c.ReclaimPolicy; p != nil && *p != "" {
		row.OneOf(&f, reclaim, *p, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)
	}
	if c.VolumeBindingMode == nil {
		f.Required(mode, "")
	} else {
		row.OneOf(&f, mode, *c.VolumeBindingMode, storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)
	}
	checkTopologies(&f, c.AllowedTopologies)
	if c.Provisioner == "" { // declared at v1.37.2's type, and so judged last
		f.Required(provisioner, "")
	}
	if was != nil {
		f.SameUnshown(provisioner, c.Provisioner, was.Provisioner)
		f.SameUnshown(parameters, c.Parameters, was.Parameters)
		f.SameUnshown(reclaim, c.ReclaimPolicy, was.ReclaimPolicy)
		f.SameUnshown(mode, c.VolumeBindingMode, was.VolumeBindingMode)
	}
	return f.List()
}

func checkProvisioner(f *row.Findings, path *field.Path, name string) {
	if name == "" {
		f.Required(path, "")
		return
	}
	f.Each(path, name, validation.IsQualifiedName(strings.ToLower(name)))
}

func checkParameters(f *row.Findings, path *field.Path, m map[string]string) {
	if len(m) > mostParameters {
		f.Add(field.TooLong(path, "", mostParameters))
		return
	}
	total := 0
	for k, v := range m {
		if k == "" {
			f.Invalid(path, k, "field can not be empty.")
		}
		total += len(k) + len(v)
	}
	if total > longestParameters {
		f.Add(field.TooLong(path, "", longestParameters))
	}
}

func checkTopologies(f *row.Findings, terms []corev1.TopologySelectorTerm) {
	path := field.NewPath("allowedTopologies")
	// v1.37.2 compares with one empty term per term, too: a term without expressions is refused as often.
	seen := make([]map[string]sets.Set[string], len(terms))
	for i, t := range terms {
		at := path.Index(i).Child("matchLabelExpressions")
		values := map[string]sets.Set[string]{}
		for k, e := range t.MatchLabelExpressions {
			have := sets.New[string]()
			if len(e.Values) == 0 {
				f.Required(at.Index(k).Child("values"), "")
			}
			for n, v := range e.Values {
				if have.Has(v) {
					f.Add(field.Duplicate(at.Index(k).Child("values").Index(n), v))
				}
				have.Insert(v)
			}
			f.Add(metavalidation.ValidateLabelName(e.Key, at.Index(k).Child("key"))...)
			if _, ok := values[e.Key]; ok {
				f.Add(field.Duplicate(at.Index(k).Child("key"), e.Key))
			}
			values[e.Key] = have
		}
		for _, other := range seen {
			if apiequality.Semantic.DeepEqual(other, values) {
				f.Add(field.Duplicate(at, ""))
			}
		}
		seen = append(seen, values)
	}
}

// inUse keeps a class from going while volumes have it.
const inUse = "kubernetes.io/vac-protection"

func attributesClasses() kind.Kind {
	k := names("volumeattributesclasses", "VolumeAttributesClass", row.Types[storagev1.VolumeAttributesClass, storagev1.VolumeAttributesClassList](), "vac")
	k.Rules = row.Rules[storagev1.VolumeAttributesClass]{
		Create: func(_ context.Context, c *storagev1.VolumeAttributesClass) {
			if !sets.New(c.Finalizers...).Has(inUse) {
				c.Finalizers = append(c.Finalizers, inUse)
			}
		},
		Check: func(c, was *storagev1.VolumeAttributesClass) field.ErrorList {
			var f row.Findings
			driver, parameters := field.NewPath("driverName"), field.NewPath("parameters")
			checkProvisioner(&f, driver, c.DriverName)
			if len(c.Parameters) == 0 {
				f.Required(parameters, "must contain at least one key/value pair")
			}
			checkParameters(&f, parameters, c.Parameters)
			if was != nil {
				if c.DriverName != was.DriverName {
					f.Forbidden(driver, "updates to driverName are forbidden.")
				}
				if !maps.Equal(c.Parameters, was.Parameters) {
					f.Forbidden(parameters, "updates to parameters are forbidden.")
				}
			}
			return f.List()
		},
		Unconditional: true,
	}.Rules()
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{column.Name(), column.Def("DriverName", storagev1.VolumeAttributesClass{}.SwaggerDoc()["driverName"]), column.Age()},
		Row: row.Cells(func(c *storagev1.VolumeAttributesClass, o kind.RowOptions) []any {
			return []any{c.Name, c.DriverName, column.Since(c.CreationTimestamp, o.Now)}
		}),
	}
	return k
}
