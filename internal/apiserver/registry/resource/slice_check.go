package resource

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

const exactlyOneNodeSelection = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is " +
	"required"

func checkSlice(s, previous *resourcev1.ResourceSlice) field.ErrorList {
	var f typed.Errors
	x := &s.Spec
	checkDriver(&f, x.Driver, spec().Child("driver"))
	checkSlicePool(&f, &x.Pool)
	if previous != nil {
		f.Immutable(spec().Child("pool", "name"), x.Pool.Name, previous.Spec.Pool.Name)
		f.Immutable(spec().Child("driver"), x.Driver, previous.Spec.Driver)
		f.Immutable(spec().Child("nodeName"), x.NodeName, previous.Spec.NodeName)
	}
	checkNodeSelection(&f, x)
	if x.Devices != nil && x.SharedCounters != nil {
		f.Invalid(spec(), "", "only one of `sharedCounters` or `devices` is allowed")
	}
	most := resourcev1.ResourceSliceMaxDevices
	for i := range x.Devices {
		if d := &x.Devices[i]; len(d.Taints) > 0 || len(d.ConsumesCounters) > 0 {
			most = resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
		}
	}
	perDevice := typed.Deref(x.PerDeviceNodeSelection)
	checkUnique(&f, newListChecker(spec().Child("devices"), x.Devices, most),
		func(d *resourcev1.Device) string { return d.Name },
		func(d *resourcev1.Device, at *field.Path) { checkDevice(&f, d, at, perDevice) })
	checkUnique(&f, newListChecker(spec().Child("sharedCounters"), x.SharedCounters,
		resourcev1.ResourceSliceMaxCounterSets), func(c *resourcev1.CounterSet) string { return c.Name },
		func(c *resourcev1.CounterSet, at *field.Path) {
			checkCounters(&f, c.Counters, resourcev1.ResourceSliceMaxCountersPerCounterSet, at.Child("counters"))
		})
	checkValueKinds(&f, x.Devices)
	return f.List()
}

func checkSlicePool(f *typed.Errors, p *resourcev1.ResourcePool) {
	at := spec().Child("pool")
	checkPool(f, p.Name, at.Child("name"))
	if p.ResourceSliceCount <= 0 {
		f.Invalid(at.Child("resourceSliceCount"), p.ResourceSliceCount, "must be greater than zero")
	}
	if p.Generation < 0 {
		f.Invalid(at.Child("generation"), p.Generation, "must be greater than or equal to zero")
	}
}

// checkNodeSelection wants one way to say which nodes can use the devices.
func checkNodeSelection(f *typed.Errors, x *resourcev1.ResourceSliceSpec) {
	var set []string
	if x.NodeName != nil {
		if *x.NodeName == "" {
			f.Invalid(spec().Child("nodeName"), "", "must be either unset or set to a non-empty string")
		} else {
			set = append(set, "`nodeName`")
			f.DNSSubdomain(spec().Child("nodeName"), *x.NodeName)
		}
	}
	if s := x.NodeSelector; s != nil {
		set = append(set, "`nodeSelector`")
		f.Add(podspec.ValidateNodeSelector(s, spec().Child("nodeSelector"))...)
		if len(s.NodeSelectorTerms) != 1 {
			f.Invalid(spec().Child("nodeSelector", "nodeSelectorTerms"), typed.GoFields(s.NodeSelectorTerms),
				"must have exactly one node selector term")
		}
	}
	for _, b := range []struct {
		child string
		v     *bool
	}{{"allNodes", x.AllNodes}, {"perDeviceNodeSelection", x.PerDeviceNodeSelection}} {
		switch {
		case b.v == nil:
		case *b.v:
			set = append(set, "`"+b.child+"`")
		default:
			f.Invalid(spec().Child(b.child), *b.v, "must be either unset or set to true")
		}
	}
	switch {
	case len(set) == 0:
		f.Required(spec(), exactlyOneNodeSelection)
	case len(set) > 1:
		f.Invalid(spec(), fmt.Sprintf("{%s}", strings.Join(set, ", ")),
			exactlyOneNodeSelection+", but multiple fields are set")
	}
}

func checkDevice(f *typed.Errors, d *resourcev1.Device, p *field.Path, perDevice bool) {
	f.DNSLabel(p.Child("name"), d.Name)
	if n := len(d.Attributes) + len(d.Capacity); n > resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		f.Invalid(p, n, fmt.Sprintf("the total number of attributes and capacities must not exceed %d",
			resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
		at := p.Child("attributes").Key(string(name))
		checkName(f, name, p.Child("attributes"))
		a := d.Attributes[name]
		checkAttribute(f, &a, at)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Capacity)) {
		at := p.Child("capacity").Key(string(name))
		checkName(f, name, p.Child("capacity"))
		c := d.Capacity[name]
		checkCapacity(f, &c, typed.Deref(d.AllowMultipleAllocations), at)
	}
	checkEach(f, newListChecker(p.Child("taints"), d.Taints, resourcev1.DeviceTaintsMaxLength),
		func(t *resourcev1.DeviceTaint, at *field.Path) { checkTaint(f, t, at) })
	checkUnique(f, newListChecker(p.Child("consumesCounters"), d.ConsumesCounters,
		resourcev1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice),
		func(c *resourcev1.DeviceCounterConsumption) string { return c.CounterSet },
		func(c *resourcev1.DeviceCounterConsumption, at *field.Path) {
			checkCounters(f, c.Counters, resourcev1.ResourceSliceMaxCountersPerDeviceCounterConsumption,
				at.Child("counters"))
		})
	checkDeviceNodes(f, d, p, perDevice)
	if typed.Deref(d.BindsToNode) || len(d.BindingConditions)+len(d.BindingFailureConditions) > 0 {
		checkBinding(f, d.BindingConditions, d.BindingFailureConditions, p)
	}
}

// checkDeviceNodes wants a device to say which nodes reach it when, and only when, its slice leaves
// that to devices.
func checkDeviceNodes(f *typed.Errors, d *resourcev1.Device, p *field.Path, perDevice bool) {
	if !perDevice {
		if d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil {
			f.Invalid(p, nil, "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` "+
				"is set to true in the ResourceSlice spec")
		}
		return
	}
	var set []string
	switch at := p.Child("nodeName"); {
	case d.NodeName == nil:
	case *d.NodeName == "":
		f.Invalid(at, "", "must not be empty")
	default:
		set = append(set, "`nodeName`")
		f.DNSSubdomain(at, *d.NodeName)
	}
	if s := d.NodeSelector; s != nil {
		set = append(set, "`nodeSelector`")
		f.Add(podspec.ValidateNodeSelector(s, p.Child("nodeSelector"))...)
	}
	switch at := p.Child("allNodes"); {
	case d.AllNodes == nil:
	case *d.AllNodes:
		set = append(set, "`allNodes`")
	default:
		f.Invalid(at, false, "must be either unset or set to true")
	}
	const one = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` " +
		"is set to true in the ResourceSlice spec"
	switch {
	case len(set) == 0:
		f.Required(p, one)
	case len(set) > 1:
		f.Invalid(p, fmt.Sprintf("{%s}", strings.Join(set, ", ")), one)
	}
}

// checkCounters validates the number of counters; their names are declared at the type.
func checkCounters(f *typed.Errors, m map[string]resourcev1.Counter, most int, p *field.Path) {
	if len(m) == 0 {
		f.Required(p, "")
	}
	if len(m) > most {
		f.Add(field.TooMany(p, len(m), most))
	}
}

func checkTaint(f *typed.Errors, t *resourcev1.DeviceTaint, p *field.Path) {
	f.Add(metavalidation.ValidateLabelName(t.Key, p.Child("key"))...)
	if t.Value != "" {
		f.Add(validate.LabelValue(context.Background(), operation.Operation{}, p.Child("value"), &t.Value, nil)...)
	}
	if t.Effect == "" {
		f.Required(p.Child("effect"), "")
	} else {
		checkEffect(f, t.Effect, p.Child("effect"))
	}
}

func checkClass(c, _ *resourcev1.DeviceClass) field.ErrorList {
	var f typed.Errors
	checkSelectors(&f, c.Spec.Selectors, spec().Child("selectors"), false)
	checkEach(&f, newListChecker(spec().Child("config"), c.Spec.Config, resourcev1.DeviceConfigMaxSize),
		func(x *resourcev1.DeviceClassConfiguration, at *field.Path) {
			checkConfiguration(&f, &x.DeviceConfiguration, at, false)
		})
	if n := c.Spec.ExtendedResourceName; n != nil {
		f.Add(validate.ExtendedResourceName(context.Background(), operation.Operation{},
			spec().Child("extendedResourceName"), n, nil)...)
	}
	return f.List()
}
