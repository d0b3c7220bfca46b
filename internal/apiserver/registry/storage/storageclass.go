package storage

import (
	"fmt"
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

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
	"github.com/gantry-project/gantry/internal/defaultclass"
)

// Limits of a class's parameters.
const (
	maxParameters       = 512
	maxParametersLength = 256 * 1024
)

func storageClasses() resourcedef.Kind {
	doc := storagev1.StorageClass{}.SwaggerDoc()
	k := newKind("storageclasses", "StorageClass", typed.NewTypes[storagev1.StorageClass, storagev1.StorageClassList](),
		"sc")
	k.Rules = typed.Rules[storagev1.StorageClass]{
		Default: func(c *storagev1.StorageClass) {
			typed.SetDefault(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
			typed.SetDefault(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
		},
		Validate:                 checkClass,
		Warn:                     warnClass,
		AllowUnconditionalUpdate: true,
	}.Untyped()
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{
			printers.NameColumn(), printers.StringColumn("Provisioner", doc["provisioner"]),
			printers.StringColumn("ReclaimPolicy", doc["reclaimPolicy"]),
			printers.StringColumn("VolumeBindingMode", doc["volumeBindingMode"]),
			printers.StringColumn("AllowVolumeExpansion", doc["allowVolumeExpansion"]), printers.AgeColumn(),
		},
		Row:     typed.RowFunc(classRow),
		ListRow: classRows,
	}
	return k
}

// classRows prints the classes of a list: only there is the one marked that claims get which name
// none, the youngest of those that say so.
func classRows(list runtime.Object) func(runtime.Object, resourcedef.RowOptions) []any {
	var all []*storagev1.StorageClass
	items := list.(*storagev1.StorageClassList).Items
	for i := range items {
		all = append(all, &items[i])
	}
	usual, marked := defaultclass.Newest(all, defaultclass.Storage, defaultclass.StorageBeta)
	return typed.RowFunc(func(c *storagev1.StorageClass, o resourcedef.RowOptions) []any {
		cells := classRow(c, o)
		if marked && c.Name == usual.Name {
			cells[0] = c.Name + " (default)"
		}
		return cells
	})
}

func classRow(c *storagev1.StorageClass, o resourcedef.RowOptions) []any {
	reclaim, mode := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingImmediate
	if c.ReclaimPolicy != nil {
		reclaim = *c.ReclaimPolicy
	}
	if c.VolumeBindingMode != nil {
		mode = *c.VolumeBindingMode
	}
	return []any{c.Name, c.Provisioner, string(reclaim), string(mode), typed.Deref(c.AllowVolumeExpansion),
		printers.TimestampSince(c.CreationTimestamp, o.Now)}
}

func checkClass(c, previous *storagev1.StorageClass) field.ErrorList {
	var f typed.Errors
	provisioner, parameters := field.NewPath("provisioner"), field.NewPath("parameters")
	reclaim, mode := field.NewPath("reclaimPolicy"), field.NewPath("volumeBindingMode")
	if c.Provisioner != "" {
		checkProvisioner(&f, provisioner, c.Provisioner)
	}
	checkParameters(&f, parameters, c.Parameters)
	if p := c.ReclaimPolicy; p != nil && *p != "" {
		typed.Supported(&f, reclaim, *p, corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)
	}
	if c.VolumeBindingMode == nil {
		f.Required(mode, "")
	} else {
		typed.Supported(&f, mode, *c.VolumeBindingMode, storagev1.VolumeBindingImmediate,
			storagev1.VolumeBindingWaitForFirstConsumer)
	}
	checkTopologies(&f, c.AllowedTopologies)
	if c.Provisioner == "" { // declared at v1.37.2's type, and so validated last
		f.Required(provisioner, "")
	}
	if previous != nil {
		f.ImmutableWithoutValue(provisioner, c.Provisioner, previous.Provisioner)
		f.ImmutableWithoutValue(parameters, c.Parameters, previous.Parameters)
		f.ImmutableWithoutValue(reclaim, c.ReclaimPolicy, previous.ReclaimPolicy)
		f.ImmutableWithoutValue(mode, c.VolumeBindingMode, previous.VolumeBindingMode)
	}
	return f.List()
}

// warnClass tells of deprecated labels in allowedTopologies.
func warnClass(c *storagev1.StorageClass) []string {
	var out []string
	for i, t := range c.AllowedTopologies {
		for k, e := range t.MatchLabelExpressions {
			if text := podspec.DeprecatedNodeLabel(e.Key); text != "" {
				out = append(out, fmt.Sprintf("allowedTopologies[%d].matchLabelExpressions[%d].key: %s", i, k, text))
			}
		}
	}
	return out
}

func checkProvisioner(f *typed.Errors, path *field.Path, name string) {
	if name == "" {
		f.Required(path, "")
		return
	}
	name = strings.ToLower(name) // v1.37.2 prints what it checks
	f.InvalidEach(path, name, validation.IsQualifiedName(name))
}

func checkParameters(f *typed.Errors, path *field.Path, m map[string]string) {
	if len(m) > maxParameters {
		f.Add(field.TooLong(path, "", maxParameters))
		return
	}
	total := 0
	for k, v := range m {
		if k == "" {
			f.Invalid(path, k, "field can not be empty.")
		}
		total += len(k) + len(v)
	}
	if total > maxParametersLength {
		f.Add(field.TooLong(path, "", maxParametersLength))
	}
}

func checkTopologies(f *typed.Errors, terms []corev1.TopologySelectorTerm) {
	path := field.NewPath("allowedTopologies")
	// v1.37.2 compares with one empty term per term, too: a term without expressions is refused as
	// often.
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

func attributesClasses() resourcedef.Kind {
	k := newKind("volumeattributesclasses", "VolumeAttributesClass", typed.NewTypes[storagev1.VolumeAttributesClass,
		storagev1.VolumeAttributesClassList](), "vac")
	k.Rules = typed.Rules[storagev1.VolumeAttributesClass]{
		Validate: func(c, previous *storagev1.VolumeAttributesClass) field.ErrorList {
			var f typed.Errors
			driver, parameters := field.NewPath("driverName"), field.NewPath("parameters")
			if previous != nil {
				if c.DriverName != previous.DriverName {
					f.Forbidden(driver, "updates to driverName are forbidden.")
				}
				if !maps.Equal(c.Parameters, previous.Parameters) {
					f.Forbidden(parameters, "updates to parameters are forbidden.")
				}
			}
			checkProvisioner(&f, driver, c.DriverName)
			if len(c.Parameters) == 0 {
				f.Required(parameters, "must contain at least one key/value pair")
			}
			checkParameters(&f, parameters, c.Parameters)
			return f.List()
		},
		AllowUnconditionalUpdate: true,
	}.Untyped()
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{printers.NameColumn(),
			printers.StringColumn("DriverName", storagev1.VolumeAttributesClass{}.SwaggerDoc()["driverName"]),
			printers.AgeColumn()},
		Row: typed.RowFunc(func(c *storagev1.VolumeAttributesClass, o resourcedef.RowOptions) []any {
			return []any{c.Name, c.DriverName, printers.TimestampSince(c.CreationTimestamp, o.Now)}
		}),
	}
	return k
}
