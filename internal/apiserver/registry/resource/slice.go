package resource

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
)

func resourceSlices() kind.Kind {
	k := names("resourceslices", "ResourceSlice", row.Types[resourcev1.ResourceSlice, resourcev1.ResourceSliceList]())
	k.Rules = row.Rules[resourcev1.ResourceSlice]{
		Default: defaultSlice,
		Create:  func(_ context.Context, s *resourcev1.ResourceSlice) { dropFromSlice(&s.Spec, nil) },
		Update:  func(s, was *resourcev1.ResourceSlice) { dropFromSlice(&s.Spec, &was.Spec) },
		Check:   checkSlice,
		Fields: func(s *resourcev1.ResourceSlice) fields.Set {
			return fields.Set{
				resourcev1.ResourceSliceSelectorNodeName: row.Value(s.Spec.NodeName), resourcev1.ResourceSliceSelectorDriver: s.Spec.Driver,
				resourcev1.ResourceSliceSelectorPoolName: s.Spec.Pool.Name,
			}
		},
		Unconditional: true,
	}.Rules()
	doc, pool := resourcev1.ResourceSliceSpec{}.SwaggerDoc(), resourcev1.ResourcePool{}.SwaggerDoc()
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Def("Node", doc["nodeName"]), column.Def("Driver", doc["driver"]), column.Def("Pool", pool["name"]), column.Age(),
		},
		Row: row.Cells(func(s *resourcev1.ResourceSlice, o kind.RowOptions) []any {
			return []any{s.Name, row.Value(s.Spec.NodeName), s.Spec.Driver, s.Spec.Pool.Name, column.Since(s.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

func classes() kind.Kind {
	k := names("deviceclasses", "DeviceClass", row.Types[resourcev1.DeviceClass, resourcev1.DeviceClassList]())
	k.Rules = row.Rules[resourcev1.DeviceClass]{Check: checkClass, Unconditional: true}.Rules()
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{column.Name(), column.Age()},
		Row: row.Cells(func(c *resourcev1.DeviceClass, o kind.RowOptions) []any {
			return []any{c.Name, column.Since(c.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

func taintRules() kind.Kind {
	doc := resourcev1.DeviceTaint{}.SwaggerDoc()
	k := names("devicetaintrules", "DeviceTaintRule", row.Types[resourcev1.DeviceTaintRule, resourcev1.DeviceTaintRuleList]())
	k.Types.HasStatus = true
	k.Rules = row.Rules[resourcev1.DeviceTaintRule]{
		Default:       func(r *resourcev1.DeviceTaintRule) { defaultTaint(&r.Spec.Taint) },
		Check:         checkTaintRule,
		CheckStatus:   checkTaintRuleStatus,
		Unconditional: true,
	}.Rules()
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Def("Key", doc["key"]), column.Def("Value", doc["value"]), column.Def("Effect", doc["effect"]),
			column.Def("TimeAdded", doc["timeAdded"]), column.Age(),
		},
		Row: row.Cells(func(r *resourcev1.DeviceTaintRule, o kind.RowOptions) []any {
			t, added := &r.Spec.Taint, ""
			if t.TimeAdded != nil {
				added = column.Since(*t.TimeAdded, o.Now)
			}
			return []any{r.Name, t.Key, t.Value, string(t.Effect), added, column.Since(r.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

func checkTaintRule(r, _ *resourcev1.DeviceTaintRule) field.ErrorList {
	var f row.Findings
	if s, at := r.Spec.DeviceSelector, spec().Child("deviceSelector"); s != nil {
		if s.Driver != nil {
			checkDriver(&f, *s.Driver, at.Child("driver"))
		}
		if s.Pool != nil {
			checkPool(&f, *s.Pool, at.Child("pool"))
		}
		if s.Device != nil {
			checkLabel(&f, *s.Device, at.Child("device"))
		}
	}
	checkTaint(&f, &r.Spec.Taint, spec().Child("taint"))
	return f.List()
}

func checkTaintRuleStatus(r, _ *resourcev1.DeviceTaintRule) field.ErrorList {
	var f row.Findings
	p := field.NewPath("status", "conditions")
	if n := len(r.Status.Conditions); n > resourcev1.DeviceTaintRuleStatusMaxConditions {
		f.Add(field.TooMany(p, n, resourcev1.DeviceTaintRuleStatusMaxConditions))
	}
	f.Add(metavalidation.ValidateConditions(r.Status.Conditions, p)...)
	return f.List()
}
