package core

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

const immutableMessage = "field is immutable when `immutable` is set"

func configMaps() resourcedef.Kind {
	t := typed.NewNamespacedTypes[v1.ConfigMap, v1.ConfigMapList]()
	t.NoGenerate = true
	return resourcedef.Kind{
		Version: "v1", Resource: "configmaps", Singular: "configmap", Kind: "ConfigMap",
		Names: resourcedef.Names{Short: []string{"cm"}},
		Types: t,
		Rules: typed.Rules[v1.ConfigMap]{
			Validate: func(c, old *v1.ConfigMap) field.ErrorList {
				if old == nil {
					return validateConfigMap(c)
				}
				return validateConfigMapUpdate(c, old)
			},
			AllowUnconditionalUpdate: true,
		}.Untyped(),
		Table: resourcedef.Table{
			Columns: []metav1.TableColumnDefinition{printers.NameColumn(),
				printers.StringColumn("Data", v1.ConfigMap{}.SwaggerDoc()["data"]), printers.AgeColumn()},
			Row: typed.RowFunc(func(c *v1.ConfigMap, opt resourcedef.RowOptions) []any {
				return []any{c.Name, int64(len(c.Data) + len(c.BinaryData)),
					printers.TimestampSince(c.CreationTimestamp, opt.Now)}
			}),
		},
	}
}

func validateConfigMap(c *v1.ConfigMap) field.ErrorList {
	var errs field.ErrorList
	size := 0
	for _, k := range slices.Sorted(maps.Keys(c.Data)) {
		errs = append(errs, dataKey(k, field.NewPath("data"))...)
		if _, both := c.BinaryData[k]; both {
			errs = append(errs, field.Invalid(field.NewPath("data").Key(k), k,
				"duplicate of key present in binaryData"))
		}
		size += len(c.Data[k])
	}
	for _, k := range slices.Sorted(maps.Keys(c.BinaryData)) {
		errs = append(errs, dataKey(k, field.NewPath("binaryData"))...)
		size += len(c.BinaryData[k])
	}
	if size > v1.MaxSecretSize {
		// The value is left out: it is as large as the limit.
		errs = append(errs, field.TooLong(field.NewPath(""), "" /*unused*/, v1.MaxSecretSize))
	}
	return errs
}

// dataKey validates one key of a ConfigMap or Secret.
func dataKey(k string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsConfigMapKey(k) {
		errs = append(errs, field.Invalid(path.Key(k), k, msg))
	}
	return errs
}

func validateConfigMapUpdate(c, old *v1.ConfigMap) field.ErrorList {
	var errs field.ErrorList
	if typed.Deref(old.Immutable) {
		if !typed.Deref(c.Immutable) {
			errs = append(errs, field.Forbidden(field.NewPath("immutable"), immutableMessage))
		}
		if !apiequality.Semantic.DeepEqual(c.Data, old.Data) {
			errs = append(errs, field.Forbidden(field.NewPath("data"), immutableMessage))
		}
		if !apiequality.Semantic.DeepEqual(c.BinaryData, old.BinaryData) {
			errs = append(errs, field.Forbidden(field.NewPath("binaryData"), immutableMessage))
		}
	}
	return append(errs, validateConfigMap(c)...)
}
