package nodes

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	netutils "k8s.io/utils/net"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

// Validate validates a Node. Status is optional, and validated where it is given.
func Validate(n *v1.Node) field.ErrorList { return validate(n, nil, swap(n)) }

// validate is Validate of a Node whose address ranges may be some that are stored already, with
// what was found about its swap.
func validate(n *v1.Node, stored []string, swap field.ErrorList) field.ErrorList {
	errs := annotations(n.Annotations, field.NewPath("metadata", "annotations"))
	errs = append(errs, taints(n.Spec.Taints, field.NewPath("metadata", "taints"))...)
	errs = append(errs, resources(n)...)
	errs = append(errs, swap...)
	errs = append(errs, features(n.Status.DeclaredFeatures)...)
	return append(errs, podCIDRs(n, stored)...)
}

// swap validates a Node's swap, which writes of its status alone may have as they like.
func swap(n *v1.Node) field.ErrorList {
	if s := n.Status.NodeInfo.Swap; s != nil && s.Capacity != nil && *s.Capacity <= 0 {
		return field.ErrorList{field.Invalid(field.NewPath("metadata", "nodeSwapStatus", "capacity"), *s.Capacity,
			"must be greater than zero")}
	}
	return nil
}

// featureName is a name of a feature that a node declares.
var featureName = regexp.MustCompile(`^([A-Z][A-Za-z0-9]*)(/[A-Za-z][A-Za-z0-9]*)*$`)

// features validates what a node declares to be able to do: sorted names, each once (KEP-5328).
func features(list []string) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("status", "declaredFeatures")
	for i, f := range list {
		if i > 0 && f == list[i-1] {
			errs = append(errs, field.Duplicate(path.Index(i), f))
		} else if i > 0 && f < list[i-1] {
			errs = append(errs, field.Invalid(path.Index(i), f, "list must be sorted alphabetically"))
		}
		switch {
		case len(f) > validation.DNS1123SubdomainMaxLength:
			errs = append(errs,
				field.Invalid(path.Index(i), f,
					fmt.Sprintf("invalid feature name %q: must be no more than %d characters", f,
						validation.DNS1123SubdomainMaxLength)))
		case !featureName.MatchString(f):
			errs = append(errs,
				field.Invalid(path.Index(i), f,
					fmt.Sprintf("invalid feature name %q: must start with an UpperCamelCase segment, with subsequent "+
						"segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only "+
						"alphanumeric characters and slashes", f)))
		}
	}
	return errs
}

// podCIDRs wants address ranges, one of each family; those stored already stay fine whatever they
// look like.
func podCIDRs(n *v1.Node, stored []string) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec", "podCIDRs")
	families := map[bool]int{}
	var broken error
	for i, c := range n.Spec.PodCIDRs {
		errs = append(errs, validation.IsValidCIDRForLegacyField(path.Index(i), c, true, stored)...)
		prefix, _, err := netutils.ParseCIDRSloppy(c)
		switch {
		case err == nil:
			families[prefix.To4() != nil]++
		case broken == nil && len(n.Spec.PodCIDRs) > 1:
			broken = fmt.Errorf("invalid CIDR[%d]: <nil> (%w)", i, err)
		}
	}
	if broken != nil {
		errs = append(errs, field.InternalError(path,
			fmt.Errorf("invalid PodCIDRs. failed to check with dual stack with error:%w", broken)))
	}
	if broken != nil || families[true] > 1 || families[false] > 1 {
		errs = append(errs,
			field.Invalid(path, n.Spec.PodCIDRs, "may specify no more than one CIDR for each IP family"))
	}
	return errs
}

// annotations validates those that carried taints, and Pods to avoid, before there were fields for
// them.
func annotations(a map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if text := a[v1.TaintsAnnotationKey]; text != "" {
		var list []v1.Taint
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			errs = append(errs, field.Invalid(path, v1.TaintsAnnotationKey, err.Error()))
		} else {
			errs = append(errs, taints(list, path.Child(v1.TaintsAnnotationKey))...)
		}
	}
	if a[v1.PreferAvoidPodsAnnotationKey] == "" {
		return errs
	}
	avoid, err := corev1helpers.GetAvoidPodsFromNodeAnnotations(a)
	if err != nil {
		return append(errs, field.Invalid(path.Child("AvoidPods"), v1.PreferAvoidPodsAnnotationKey, err.Error()))
	}
	for i, e := range avoid.PreferAvoidPods {
		at := path.Child(v1.PreferAvoidPodsAnnotationKey).Index(i).Child("PodSignature")
		switch c := e.PodSignature.PodController; {
		case c == nil:
			errs = append(errs, field.Required(at, ""))
		case c.Controller == nil || !*c.Controller:
			errs = append(errs, field.Invalid(at.Child("PodController").Child("Controller"), false,
				"must point to a controller"))
		}
	}
	return errs
}

func taints(list []v1.Taint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	type pair struct {
		effect v1.TaintEffect
		key    string
	}
	seen := map[pair]bool{}
	for i, t := range list {
		at := path.Index(i)
		errs = append(errs, metavalidation.ValidateLabelName(t.Key, at.Child("key"))...)
		if m := validation.IsValidLabelValue(t.Value); len(m) > 0 {
			errs = append(errs, field.Invalid(at.Child("value"), t.Value, strings.Join(m, ";")))
		}
		switch t.Effect {
		case "":
			errs = append(errs, field.Required(at.Child("effect"), ""))
		case v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute:
		default:
			errs = append(errs, field.NotSupported(at.Child("effect"), t.Effect,
				[]v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute}))
		}
		k := pair{t.Effect, t.Key}
		if seen[k] {
			e := field.Duplicate(at, typed.GoFields(t))
			e.Detail = "taints must be unique by key and effect pair"
			errs = append(errs, e)
		}
		seen[k] = true
	}
	return errs
}

func resources(n *v1.Node) field.ErrorList {
	var errs field.ErrorList
	for _, list := range []struct {
		child string
		of    v1.ResourceList
	}{{"capacity", n.Status.Capacity}, {"allocatable", n.Status.Allocatable}} {
		for _, k := range podspec.SortedResources(list.of) {
			errs = append(errs,
				podspec.ValidateQuantity(k, list.of[k], field.NewPath("status", list.child, string(k)))...)
		}
	}
	return errs
}

// ValidateUpdate validates a Node and then its change: its address ranges and provider stay as
// first given.
func ValidateUpdate(n, old *v1.Node) field.ErrorList { return validateUpdate(n, old, swap(n)) }

// ValidateStatusUpdate validates a change that is written to a Node's status.
func ValidateStatusUpdate(n, old *v1.Node) field.ErrorList { return validateUpdate(n, old, nil) }

func validateUpdate(n, old *v1.Node, swap field.ErrorList) field.ErrorList {
	errs := validate(n, old.Spec.PodCIDRs, swap)
	seen := map[v1.NodeAddress]bool{}
	for i, a := range n.Status.Addresses {
		if seen[a] {
			errs = append(errs, field.Duplicate(field.NewPath("status", "addresses").Index(i), typed.GoFields(a)))
		}
		seen[a] = true
	}
	spec := field.NewPath("spec")
	if len(old.Spec.PodCIDRs) > 0 && !slices.Equal(old.Spec.PodCIDRs, n.Spec.PodCIDRs) {
		errs = append(errs,
			field.Forbidden(spec.Child("podCIDRs"), `node updates may not change podCIDR except from "" to valid`))
	}
	if old.Spec.ProviderID != "" && old.Spec.ProviderID != n.Spec.ProviderID {
		detail := "field cannot be modified once set"
		if n.Spec.ProviderID == "" {
			detail = "field cannot be cleared once set"
		}
		errs = append(errs, field.Invalid(spec.Child("providerID"), nil, detail))
	}
	if n.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		errs = append(errs, field.Forbidden(spec.Child("externalID"), "may not be updated"))
	}
	return errs
}
