package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
)

func validateLimitRange(l *v1.LimitRange) field.ErrorList {
	var errs field.ErrorList
	seen := map[v1.LimitType]bool{}
	for i := range l.Spec.Limits {
		it, path := &l.Spec.Limits[i], field.NewPath("spec", "limits").Index(i)
		errs = append(errs, limitType(string(it.Type), path.Child("type"))...)
		if seen[it.Type] {
			errs = append(errs, field.Duplicate(path.Child("type"), it.Type))
		}
		seen[it.Type] = true
		errs = append(errs, limitNames(it, path)...)
		if _, min := it.Min[v1.ResourceStorage]; it.Type == v1.LimitTypePersistentVolumeClaim && !min {
			if _, max := it.Max[v1.ResourceStorage]; !max {
				errs = append(errs,
					field.Required(path.Child("limits"),
						"either minimum or maximum storage value is required, but neither was provided"))
			}
		}
		all := map[v1.ResourceName]bool{}
		for _, list := range []v1.ResourceList{it.Max, it.Min, it.Default, it.DefaultRequest, it.MaxLimitRequestRatio} {
			for k := range list {
				all[k] = true
			}
		}
		for _, k := range slices.Sorted(maps.Keys(all)) {
			errs = append(errs, limitOrder(it, k, path)...)
		}
	}
	return errs
}

func limitType(t string, path *field.Path) field.ErrorList {
	if errs := each(path, t, validation.IsQualifiedName(t)); len(errs) > 0 {
		return errs
	}
	switch v1.LimitType(t) {
	case v1.LimitTypePod, v1.LimitTypeContainer, v1.LimitTypePersistentVolumeClaim:
		return nil
	}
	if strings.Contains(t, "/") {
		return nil
	}
	return field.ErrorList{field.Invalid(path, t, "must be a standard limit type or fully qualified")}
}

// limitNames validates the names of resources in each list, and refuses defaults for whole Pods.
func limitNames(it *v1.LimitRangeItem, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := func(child string, list v1.ResourceList) {
		for _, k := range podspec.SortedResources(list) {
			at := path.Child(child).Key(string(k))
			if it.Type == v1.LimitTypePod || it.Type == v1.LimitTypeContainer {
				errs = append(errs, podspec.ValidateContainerResourceName(string(k), at)...)
			} else {
				errs = append(errs, podspec.ValidateResourceName(string(k), at)...)
			}
		}
	}
	names("max", it.Max)
	names("min", it.Min)
	if it.Type == v1.LimitTypePod {
		const no = "may not be specified when `type` is 'Pod'"
		if len(it.Default) > 0 {
			errs = append(errs, field.Forbidden(path.Child("default"), no))
		}
		if len(it.DefaultRequest) > 0 {
			errs = append(errs, field.Forbidden(path.Child("defaultRequest"), no))
		}
	} else {
		names("default", it.Default)
		names("defaultRequest", it.DefaultRequest)
	}
	names("maxLimitRequestRatio", it.MaxLimitRequestRatio)
	return errs
}

// limitOrder wants min <= default request <= default <= max, and a ratio that these allow.
func limitOrder(it *v1.LimitRangeItem, k v1.ResourceName, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	get := func(list v1.ResourceList) *resource.Quantity {
		if q, ok := list[k]; ok {
			return &q
		}
		return nil
	}
	min, max, request, limit, ratio := get(it.Min), get(it.Max), get(it.DefaultRequest), get(it.Default),
		get(it.MaxLimitRequestRatio)
	// over refuses a above b, naming the list at fault and the value shown.
	over := func(a, b *resource.Quantity, child string, shown *resource.Quantity, format string) {
		if a != nil && b != nil && a.Cmp(*b) > 0 {
			errs = append(errs, field.Invalid(path.Child(child).Key(string(k)), shown,
				fmt.Sprintf(format, a.String(), b.String())))
		}
	}
	over(min, max, "min", min, "min value %s is greater than max value %s")
	over(min, request, "defaultRequest", request, "min value %s is greater than default request value %s")
	over(request, max, "defaultRequest", request, "default request value %s is greater than max value %s")
	over(request, limit, "defaultRequest", request, "default request value %s is greater than default limit value %s")
	over(min, limit, "default", min, "min value %s is greater than default value %s")
	over(limit, max, "default", max, "default value %s is greater than max value %s")
	errs = append(errs, limitRatio(min, max, ratio, path.Child("maxLimitRequestRatio").Key(string(k)))...)
	if request != nil && limit != nil && limit.Cmp(*request) != 0 && !podspec.IsOvercommitAllowed(k) {
		errs = append(errs, field.Invalid(path.Child("defaultRequest").Key(string(k)), request,
			fmt.Sprintf("default value %s must equal to defaultRequest value %s in %s", limit.String(),
				request.String(), k)))
	}
	return errs
}

// limitRatio wants a ratio of one or more that maximum and minimum allow.
func limitRatio(min, max, ratio *resource.Quantity, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if ratio == nil {
		return nil
	}
	if ratio.Cmp(resource.MustParse("1")) < 0 {
		errs = append(errs, field.Invalid(at, ratio, fmt.Sprintf("ratio %s is less than 1", ratio.String())))
	}
	if min != nil && max != nil {
		if most := max.AsApproximateFloat64() / min.AsApproximateFloat64(); ratio.AsApproximateFloat64() > most {
			errs = append(errs,
				field.Invalid(at, ratio, fmt.Sprintf("ratio %s is greater than max/min = %f", ratio.String(), most)))
		}
	}
	return errs
}
