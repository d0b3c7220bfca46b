package resource

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func checkAttribute(f *typed.Errors, a *resourcev1.DeviceAttribute, p *field.Path) {
	if s := a.StringValue; s != nil && len(*s) > resourcev1.DeviceAttributeMaxValueLength {
		f.Add(field.TooLong(p.Child("string"), *s, resourcev1.DeviceAttributeMaxValueLength))
	}
	if v := a.VersionValue; v != nil {
		if len(*v) > resourcev1.DeviceAttributeMaxValueLength {
			f.Add(field.TooLong(p.Child("version"), *v, resourcev1.DeviceAttributeMaxValueLength))
		}
		if _, err := version.ParseSemantic(*v); err != nil || (*v)[0] == 'v' {
			f.Invalid(p.Child("version"), *v, "must be a string compatible with semver.org spec 2.0.0")
		}
	}
}

// checkValueKinds wants a value of one kind for each attribute. v1.37.2 declares this at the type:
// it is validated last.
func checkValueKinds(f *typed.Errors, devices []resourcev1.Device) {
	for i := range devices {
		for _, name := range slices.Sorted(maps.Keys(devices[i].Attributes)) {
			a := devices[i].Attributes[name]
			at := spec().Child("devices").Index(i).Child("attributes").Key(string(name))
			checkValueKind(f, &a, at)
		}
	}
}

func checkValueKind(f *typed.Errors, a *resourcev1.DeviceAttribute, p *field.Path) {
	var set []string
	for _, v := range []struct {
		child string
		set   bool
	}{
		{"int", a.IntValue != nil}, {"bool", a.BoolValue != nil}, {"string", a.StringValue != nil},
		{"version", a.VersionValue != nil}, {"ints", a.IntValues != nil}, {"bools", a.BoolValues != nil},
		{"strings", a.StringValues != nil}, {"versions", a.VersionValues != nil},
	} {
		if v.set {
			set = append(set, v.child)
		}
	}
	const kinds = "one of: `int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"
	switch len(set) {
	case 0:
		f.Invalid(p, "", "must specify "+kinds)
	case 1:
	default:
		f.Invalid(p, fmt.Sprintf("{%s}", strings.Join(set, ", ")), "must specify exactly "+kinds)
	}
}

// checkCapacity validates how much a device has and, when many claims share it, what each may ask
// for.
func checkCapacity(f *typed.Errors, c *resourcev1.DeviceCapacity, shared bool, p *field.Path) {
	r := c.RequestPolicy
	if r == nil {
		return
	}
	at := p.Child("requestPolicy")
	if !shared {
		f.Forbidden(at, "allowMultipleAllocations must be true")
		return
	}
	if r.ValidRange != nil && len(r.ValidValues) > 0 {
		f.Forbidden(at,
			`exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`)
		return
	}
	if r.Default == nil {
		if r.ValidRange != nil || len(r.ValidValues) > 0 {
			f.Required(at.Child("default"), "required when validValues or validRange is defined")
		}
		return
	}
	if r.Default.Cmp(c.Value) > 0 {
		f.Invalid(at.Child("default"), r.Default.String(), "default is greater than capacity value: "+c.Value.String())
	}
	if len(r.ValidValues) > 0 {
		checkValues(f, c, at)
	}
	if r.ValidRange != nil {
		checkRange(f, c, at.Child("validRange"))
	}
}

func checkValues(f *typed.Errors, c *resourcev1.DeviceCapacity, at *field.Path) {
	r, found := c.RequestPolicy, false
	const most = 10
	if len(r.ValidValues) > most {
		f.Add(field.TooMany(at.Child("validValues"), len(r.ValidValues), most))
	}
	for i, v := range r.ValidValues {
		p := at.Child("validValues").Index(i)
		if i > 0 && v.Cmp(r.ValidValues[i-1]) <= 0 {
			f.Invalid(p, v.String(), "values must be sorted in ascending order")
		}
		if v.Cmp(c.Value) > 0 {
			f.Invalid(p, v.String(), "option is larger than capacity value: "+c.Value.String())
		}
		found = found || v.Cmp(*r.Default) == 0
	}
	if !found {
		f.Invalid(at.Child("default"), r.Default.String(), "default value is not valid according to the requestPolicy")
	}
}

func checkRange(f *typed.Errors, c *resourcev1.DeviceCapacity, p *field.Path) {
	r := c.RequestPolicy.ValidRange
	if r.Min == nil {
		f.Required(p.Child("min"), "required when validRange is defined")
		return
	}
	checkAmount(f, *r.Min, p.Child("min"))
	larger := func(child string, a *resource.Quantity, b resource.Quantity, what string) {
		if a != nil && a.Cmp(b) > 0 {
			f.Invalid(p.Child(child), a.String(), what+b.String())
		}
	}
	larger("min", r.Min, c.Value, "min is larger than capacity value: ")
	larger("min", r.Min, *c.RequestPolicy.Default, "min is larger than default: ")
	larger("max", r.Max, c.Value, "max is larger than capacity value: ")
	if r.Max != nil {
		if r.Min.Cmp(*r.Max) > 0 {
			f.Invalid(p.Child("min"), r.Min.String(), "min is larger than max: "+r.Max.String())
		}
		if c.RequestPolicy.Default.Cmp(*r.Max) > 0 {
			f.Invalid(p.Child("max"), r.Max.String(), "default is larger than max: "+c.RequestPolicy.Default.String())
		}
	}
	if r.Step != nil && r.Step.Sign() <= 0 {
		f.Invalid(p.Child("step"), r.Step.String(), "must be greater than zero")
	}
}
