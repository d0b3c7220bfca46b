package resource

import (
	"context"
	"fmt"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func resourceSlices() resourcedef.Kind {
	k := newKind("resourceslices",
		"ResourceSlice", typed.NewTypes[resourcev1.ResourceSlice, resourcev1.ResourceSliceList]())
	k.Rules = typed.Rules[resourcev1.ResourceSlice]{
		Default:          defaultSlice,
		PrepareForCreate: func(_ context.Context, s *resourcev1.ResourceSlice) { dropFromSlice(&s.Spec, nil) },
		PrepareForUpdate: func(s, previous *resourcev1.ResourceSlice) {
			// fields that are dropped count
			if !apiequality.Semantic.DeepEqual(s.Spec, previous.Spec) {
				s.Generation = previous.Generation + 1
			}
			dropFromSlice(&s.Spec, &previous.Spec)
		},
		Validate:              checkSlice,
		ValidateDeclaratively: declaredSlice,
		Warn:                  warnSlice,
		SelectableFields: func(s *resourcev1.ResourceSlice) fields.Set {
			return fields.Set{
				resourcev1.ResourceSliceSelectorNodeName: typed.Deref(s.Spec.NodeName),
				resourcev1.ResourceSliceSelectorDriver:   s.Spec.Driver,
				resourcev1.ResourceSliceSelectorPoolName: s.Spec.Pool.Name,
			}
		},
		AllowUnconditionalUpdate: true,
	}.Untyped()
	doc, pool := resourcev1.ResourceSliceSpec{}.SwaggerDoc(), resourcev1.ResourcePool{}.SwaggerDoc()
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{
			printers.NameColumn(), printers.StringColumn("Node", doc["nodeName"]),
			printers.StringColumn("Driver", doc["driver"]), printers.StringColumn("Pool", pool["name"]),
			printers.AgeColumn(),
		},
		Row: typed.RowFunc(func(s *resourcev1.ResourceSlice, o resourcedef.RowOptions) []any {
			return []any{s.Name, typed.Deref(s.Spec.NodeName), s.Spec.Driver, s.Spec.Pool.Name,
				printers.TimestampSince(s.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

// warnSlice tells of a driver's name with capital letters.
func warnSlice(s *resourcev1.ResourceSlice) []string {
	if s.Spec.Driver == strings.ToLower(s.Spec.Driver) {
		return nil
	}
	return []string{fmt.Sprintf("spec.driver: driver names should be lowercase; %q contains uppercase characters",
		s.Spec.Driver)}
}

func classes() resourcedef.Kind {
	k := newKind("deviceclasses", "DeviceClass", typed.NewTypes[resourcev1.DeviceClass, resourcev1.DeviceClassList]())
	k.Rules = typed.Rules[resourcev1.DeviceClass]{ValidateName: declaredClassName, Validate: checkClass,
		ValidateDeclaratively: declaredClass, AllowUnconditionalUpdate: true}.Untyped()
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{printers.NameColumn(), printers.AgeColumn()},
		Row: typed.RowFunc(func(c *resourcev1.DeviceClass, o resourcedef.RowOptions) []any {
			return []any{c.Name, printers.TimestampSince(c.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

// declaredClassName checks a generateName only: the name is declared at the type.
func declaredClassName(name string, prefix bool) []string {
	if prefix {
		return resourcedef.ValidatePathSegmentName(name, true)
	}
	return nil
}

func taintRules() resourcedef.Kind {
	doc := resourcev1.DeviceTaint{}.SwaggerDoc()
	k := newKind("devicetaintrules",
		"DeviceTaintRule", typed.NewTypes[resourcev1.DeviceTaintRule, resourcev1.DeviceTaintRuleList]())
	k.Types.HasStatus = true
	k.Types.StatusResetFields = []string{"metadata"}
	k.Rules = typed.Rules[resourcev1.DeviceTaintRule]{
		Default: func(r *resourcev1.DeviceTaintRule) { defaultTaint(&r.Spec.Taint) },
		PrepareForUpdate: func(r, previous *resourcev1.DeviceTaintRule) {
			refreshTaint(&r.Spec.Taint, &previous.Spec.Taint)
		},
		Validate:              checkTaintRule,
		ValidateDeclaratively: declaredTaintRule,
		ValidateStatus:        checkTaintRuleStatus,
	}.Untyped()
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{
			printers.NameColumn(), printers.StringColumn("Key", doc["key"]),
			printers.StringColumn("Value", doc["value"]), printers.StringColumn("Effect", doc["effect"]),
			printers.StringColumn("TimeAdded", doc["timeAdded"]), printers.AgeColumn(),
		},
		Row: typed.RowFunc(func(r *resourcev1.DeviceTaintRule, o resourcedef.RowOptions) []any {
			t, added := &r.Spec.Taint, ""
			if t.TimeAdded != nil {
				added = printers.TimestampSince(*t.TimeAdded, o.Now)
			}
			return []any{r.Name, t.Key, t.Value, string(t.Effect), added,
				printers.TimestampSince(r.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

func checkTaintRule(r, _ *resourcev1.DeviceTaintRule) field.ErrorList {
	var f typed.Errors
	if s, at := r.Spec.DeviceSelector, spec().Child("deviceSelector"); s != nil {
		if s.Driver != nil {
			checkDriver(&f, *s.Driver, at.Child("driver"))
		}
		if s.Pool != nil {
			checkPool(&f, *s.Pool, at.Child("pool"))
		}
		if s.Device != nil {
			f.DNSLabel(at.Child("device"), *s.Device)
		}
	}
	checkTaint(&f, &r.Spec.Taint, spec().Child("taint"))
	return f.List()
}

func checkTaintRuleStatus(r, _ *resourcev1.DeviceTaintRule) field.ErrorList {
	var f typed.Errors
	p := field.NewPath("status", "conditions")
	if n := len(r.Status.Conditions); n > resourcev1.DeviceTaintRuleStatusMaxConditions {
		f.Add(field.TooMany(p, n, resourcev1.DeviceTaintRuleStatusMaxConditions))
	}
	f.Add(metavalidation.ValidateConditions(r.Status.Conditions, p)...)
	return f.List()
}
