package resource

import (
	"context"
	"fmt"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

const (
	exactlyOneRequestKind = "exactly one of `exactly` or `firstAvailable` is required"
	// noAttribute is v1.37.2's word for a constraint without an attribute.
	noAttribute = `exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`

	unknownReference = "must be the name of a request in the claim or the name of a request and a subrequest " +
		"separated by '/'"
)

// checkDevices validates what a claim asks for. stored says that its expressions were accepted
// before.
func checkDevices(f *typed.Errors, d *resourcev1.DeviceClaim, p *field.Path, stored bool) {
	known := requestNames(d)
	checkUnique(f, newListChecker(p.Child("requests"), d.Requests, resourcev1.DeviceRequestsMaxSize),
		func(r *resourcev1.DeviceRequest) string { return r.Name },
		func(r *resourcev1.DeviceRequest, at *field.Path) { checkRequest(f, r, at, stored) })
	checkEach(f, newListChecker(p.Child("constraints"), d.Constraints, resourcev1.DeviceConstraintsMaxSize),
		func(c *resourcev1.DeviceConstraint, at *field.Path) {
			checkReferences(f, c.Requests, known, at.Child("requests"))
			switch {
			case c.MatchAttribute != nil:
				checkFullName(f, *c.MatchAttribute, at.Child("matchAttribute"))
			case c.DistinctAttribute != nil:
				checkFullName(f, *c.DistinctAttribute, at.Child("distinctAttribute"))
			default:
				f.Required(at, noAttribute)
			}
		})
	checkEach(f, newListChecker(p.Child("config"), d.Config, resourcev1.DeviceConfigMaxSize),
		func(c *resourcev1.DeviceClaimConfiguration, at *field.Path) {
			checkReferences(f, c.Requests, known, at.Child("requests"))
			checkConfiguration(f, &c.DeviceConfiguration, at, stored)
		})
}

// requestNames are the names that other fields may refer to: "request" and "request/subrequest".
func requestNames(d *resourcev1.DeviceClaim) sets.Set[string] {
	out := sets.New[string]()
	for _, r := range d.Requests {
		out.Insert(r.Name)
		for _, s := range r.FirstAvailable {
			out.Insert(r.Name + "/" + s.Name)
		}
	}
	return out
}

func checkReferences(f *typed.Errors, list []string, known sets.Set[string], p *field.Path) {
	checkUnique(f, newListChecker(p, list, resourcev1.DeviceRequestsMaxSize), identity,
		func(s *string, at *field.Path) { checkReference(f, *s, known, at) })
}

func checkReference(f *typed.Errors, name string, known sets.Set[string], p *field.Path) {
	parts := strings.Split(name, "/")
	if len(parts) > 2 {
		f.Invalid(p, name, unknownReference)
		return
	}
	for _, part := range parts {
		f.DNSLabel(p, part)
	}
	if !known.Has(name) {
		f.Invalid(p, name, unknownReference)
	}
}

// deviceRequestCommon is what an exact request and a subrequest have in common.
type deviceRequestCommon struct {
	class       string
	selectors   []resourcev1.DeviceSelector
	mode        resourcev1.DeviceAllocationMode
	count       int64
	tolerations []resourcev1.DeviceToleration
}

func checkRequest(f *typed.Errors, r *resourcev1.DeviceRequest, p *field.Path, stored bool) {
	f.DNSLabel(p.Child("name"), r.Name)
	switch e := r.Exactly; {
	case e == nil && len(r.FirstAvailable) == 0:
		f.Required(p, exactlyOneRequestKind)
	case e != nil && len(r.FirstAvailable) > 0:
		f.Invalid(p, nil, exactlyOneRequestKind+", but multiple fields are set")
		return
	case e != nil:
		asked := deviceRequestCommon{e.DeviceClassName, e.Selectors, e.AllocationMode, e.Count, e.Tolerations}
		checkDeviceRequestCommon(f, asked, p.Child("exactly"), stored)
		return
	}
	list := newListChecker(p.Child("firstAvailable"), r.FirstAvailable, resourcev1.FirstAvailableDeviceRequestMaxSize)
	checkUnique(f, list, func(s *resourcev1.DeviceSubRequest) string { return s.Name },
		func(s *resourcev1.DeviceSubRequest, at *field.Path) {
			f.DNSLabel(at.Child("name"), s.Name)
			checkDeviceRequestCommon(f, deviceRequestCommon{s.DeviceClassName, s.Selectors, s.AllocationMode, s.Count,
				s.Tolerations}, at, stored)
		})
}

func checkDeviceRequestCommon(f *typed.Errors, a deviceRequestCommon, p *field.Path, stored bool) {
	if a.class == "" {
		f.Required(p.Child("deviceClassName"), "")
	} else {
		f.DNSSubdomain(p.Child("deviceClassName"), a.class)
	}
	checkSelectors(f, a.selectors, p.Child("selectors"), stored)
	switch a.mode {
	case resourcev1.DeviceAllocationModeAll:
		if a.count != 0 {
			f.Invalid(p.Child("count"), a.count, fmt.Sprintf("must not be specified when allocationMode is '%s'",
				a.mode))
		}
	case resourcev1.DeviceAllocationModeExactCount:
		if a.count <= 0 {
			f.Invalid(p.Child("count"), a.count, "must be greater than zero")
		}
	default:
		typed.Supported(f, p.Child("allocationMode"), a.mode, resourcev1.DeviceAllocationModeAll,
			resourcev1.DeviceAllocationModeExactCount)
	}
	checkEach(f, newListChecker(p.Child("tolerations"), a.tolerations, resourcev1.DeviceTolerationsMaxLength),
		func(t *resourcev1.DeviceToleration, at *field.Path) { checkToleration(f, t, at) })
}

func checkAmount(f *typed.Errors, q resource.Quantity, p *field.Path) {
	if q.Sign() < 0 {
		f.Invalid(p, q.String(), apivalidation.IsNegativeErrorMsg)
	}
}

func checkToleration(f *typed.Errors, t *resourcev1.DeviceToleration, p *field.Path) {
	if t.Key != "" {
		f.Add(metavalidation.ValidateLabelName(t.Key, p.Child("key"))...)
	}
	switch t.Operator {
	case resourcev1.DeviceTolerationOpExists:
		if t.Value != "" {
			f.Invalid(p.Child("value"), t.Value, "must be empty for operator `Exists`")
		}
	case resourcev1.DeviceTolerationOpEqual:
		f.InvalidEach(p.Child("value"), t.Value, content.IsLabelValue(t.Value))
	case "":
		f.Required(p.Child("operator"), "")
	default:
		typed.Supported(f, p.Child("operator"), t.Operator, resourcev1.DeviceTolerationOpEqual,
			resourcev1.DeviceTolerationOpExists)
	}
	if t.Effect != "" {
		checkEffect(f, t.Effect, p.Child("effect"))
	}
}

func checkEffect(f *typed.Errors, e resourcev1.DeviceTaintEffect, p *field.Path) {
	typed.Supported(f, p, e, resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule,
		resourcev1.DeviceTaintEffectNone)
}

// checkFullName wants the name of an attribute with the domain it belongs to.
func checkFullName(f *typed.Errors, name resourcev1.FullyQualifiedName, p *field.Path) {
	f.Add(validate.ResourceFullyQualifiedName(context.Background(), operation.Operation{}, p, &name, nil)...)
}

// checkName wants the name of an attribute or a capacity, with or without a domain.
func checkName(f *typed.Errors, name resourcev1.QualifiedName, p *field.Path) {
	switch s := string(name); {
	case strings.Contains(s, "/"):
		f.Add(validate.ResourceFullyQualifiedName(context.Background(), operation.Operation{}, p, &s, nil)...)
	default:
		if len(s) > resourcev1.DeviceMaxIDLength {
			f.Add(field.TooLong(p, s, resourcev1.DeviceMaxIDLength))
		}
		f.InvalidEach(p, s, content.IsCIdentifier(s))
	}
}

// checkPool wants the name of a pool: subdomains with slashes between them.
func checkPool(f *typed.Errors, name string, p *field.Path) {
	if name == "" {
		f.Required(p, "")
		return
	}
	if len(name) > resourcev1.PoolNameMaxLength {
		f.Add(field.TooLong(p, name, resourcev1.PoolNameMaxLength))
	}
	for _, part := range strings.Split(name, "/") {
		f.DNSSubdomain(p, part)
	}
}

// checkDeclaredDriver is checkDriver where v1.37.2 declares it at the type, in other words.
func checkDeclaredDriver(f *typed.Errors, name string, p *field.Path) {
	switch {
	case name == "":
		f.Required(p, "")
	case len(name) > resourcev1.DriverNameMaxLength:
		f.Add(field.TooLong(p, name, resourcev1.DriverNameMaxLength))
	default:
		f.Add(validate.LongNameCaseless(context.Background(), operation.Operation{}, p, &name, nil)...)
	}
}

// checkDriver wants the name of a driver, by the rules of CSI drivers.
func checkDriver(f *typed.Errors, name string, p *field.Path) {
	f.Add(podspec.ValidateDriverName(name, p)...)
}
