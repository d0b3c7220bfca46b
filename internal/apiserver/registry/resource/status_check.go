package resource

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

const maxAllocationConfigs = resourcev1.DeviceConfigMaxSize * 2 // from the class and from the claim

func checkStatus(c, previous *resourcev1.ResourceClaim) field.ErrorList {
	var f typed.Errors
	s, p := &c.Status, field.NewPath("status")
	checkReserved(&f, c, previous)
	switch a := s.Allocation; {
	case a != nil && previous.Status.Allocation != nil:
		if !apiequality.Semantic.DeepEqual(a, previous.Status.Allocation) {
			f.Invalid(p.Child("allocation"), nil, "field cannot be modified once set")
		}
	case a != nil:
		checkAllocation(&f, a, requestNames(&c.Spec.Devices), p.Child("allocation"))
	}
	given := allocatedDevices(s)
	stored := sets.New[string]()
	for i := range previous.Status.Devices {
		stored.Insert(deviceShareOf(&previous.Status.Devices[i]).String())
	}
	seen := sets.New[deviceShare]()
	for i := range s.Devices {
		d, at := &s.Devices[i], p.Child("devices").Index(i)
		id := deviceShareOf(d)
		checkDeviceStatus(&f, d, at, deviceStatusRule{given.Has(id), stored.Has(id.String())})
		if seen.Has(id) {
			f.Add(field.Duplicate(at, id.String()))
		}
		seen.Insert(id)
	}
	return f.List()
}

// checkReserved validates who uses a claim: nobody before it is allocated, nobody new once it is
// being deleted.
func checkReserved(f *typed.Errors, c, previous *resourcev1.ResourceClaim) {
	p := field.NewPath("status", "reservedFor")
	checkUnique(f, newListChecker(p, c.Status.ReservedFor, resourcev1.ResourceClaimReservedForMaxSize),
		func(r *resourcev1.ResourceClaimConsumerReference) string { return string(r.UID) },
		func(r *resourcev1.ResourceClaimConsumerReference, at *field.Path) {
			for _, x := range []struct{ child, value string }{{"resource", r.Resource}, {"name", r.Name},
				{"uid", string(r.UID)}} {
				if x.value == "" {
					f.Required(at.Child(x.child), "")
				}
			}
		})
	switch {
	case len(c.Status.ReservedFor) == 0:
	case c.Status.Allocation == nil:
		f.Forbidden(p, "may not be specified when `allocated` is not set")
	case c.DeletionTimestamp != nil &&
		len(sets.New(c.Status.ReservedFor...).Difference(sets.New(previous.Status.ReservedFor...))) > 0:
		f.Forbidden(p, "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set")
	}
}

func checkAllocation(f *typed.Errors, a *resourcev1.AllocationResult, known sets.Set[string], p *field.Path) {
	at := p.Child("devices")
	checkEach(f, newListChecker(at.Child("results"), a.Devices.Results, resourcev1.AllocationResultsMaxSize),
		func(r *resourcev1.DeviceRequestAllocationResult, at *field.Path) {
			checkResult(f, r, known, at)
		})
	checkEach(f, newListChecker(at.Child("config"), a.Devices.Config, maxAllocationConfigs),
		func(c *resourcev1.DeviceAllocationConfiguration, at *field.Path) {
			if c.Source == "" {
				f.Required(at.Child("source"), "")
			} else {
				typed.Supported(f, at.Child("source"), c.Source, resourcev1.AllocationConfigSourceClaim,
					resourcev1.AllocationConfigSourceClass)
			}
			checkReferences(f, c.Requests, known, at.Child("requests"))
			checkConfiguration(f, &c.DeviceConfiguration, at, true)
		})
	if a.NodeSelector != nil {
		f.Add(podspec.ValidateNodeSelector(a.NodeSelector, p.Child("nodeSelector"))...)
	}
}

func checkResult(f *typed.Errors, r *resourcev1.DeviceRequestAllocationResult, known sets.Set[string], p *field.Path) {
	checkReference(f, r.Request, known, p.Child("request"))
	checkDeclaredDriver(f, r.Driver, p.Child("driver"))
	f.DNSLabel(p.Child("device"), r.Device)
	checkBinding(f, r.BindingConditions, r.BindingFailureConditions, p)
	for i := range r.Tolerations {
		checkToleration(f, &r.Tolerations[i], p.Child("tolerations").Index(i))
	}
	if r.ShareID != nil {
		f.Add(validate.UUID(context.Background(), operation.Operation{}, p.Child("shareID"), r.ShareID, nil)...)
	}
}

// checkBinding validates the conditions a driver sets before a Pod may be bound, and those that say
// it never can.
func checkBinding(f *typed.Errors, good, bad []string, p *field.Path) {
	for _, l := range []struct {
		child string
		list  []string
		most  int
	}{{"bindingConditions", good, resourcev1.BindingConditionsMaxSize},
		{"bindingFailureConditions", bad, resourcev1.BindingFailureConditionsMaxSize}} {
		checkUnique(f, newListChecker(p.Child(l.child), l.list, l.most), identity,
			func(s *string, at *field.Path) { f.QualifiedName(at, *s) })
	}
	if both := sets.New(good...).Intersection(sets.New(bad...)); len(both) > 0 {
		f.Invalid(p.Child("bindingFailureConditions"), sets.List(both), "must not overlap with bindingConditions")
	}
	if len(good) == 0 && len(bad) > 0 {
		f.Invalid(p.Child("bindingConditions"), good, "bindingConditions are required to use bindingFailureConditions")
	}
	if len(good) > 0 && len(bad) == 0 {
		f.Invalid(p.Child("bindingFailureConditions"), bad,
			"bindingFailureConditions are required to use bindingConditions")
	}
}

// deviceShare is one device, or a part of it, that a claim was given.
type deviceShare struct{ Driver, Pool, Device, ShareID string }

func deviceShareOf(d *resourcev1.AllocatedDeviceStatus) deviceShare {
	return deviceShare{d.Driver, d.Pool, d.Device, typed.Deref(d.ShareID)}
}

// sharedDevice is a share as refusals print it.
type sharedDevice struct{ Driver, Pool, Device, ShareID string }

func (s deviceShare) String() string {
	out := s.Driver + "/" + s.Pool + "/" + s.Device
	if s.ShareID != "" {
		out += "/" + s.ShareID
	}
	return out
}

// deviceStatusRule says whether the claim was given the device, and whether the device's status is
// stored already.
type deviceStatusRule struct{ given, stored bool }

func checkDeviceStatus(f *typed.Errors, d *resourcev1.AllocatedDeviceStatus, p *field.Path, rule deviceStatusRule) {
	checkDriver(f, d.Driver, p.Child("driver"))
	checkPool(f, d.Pool, p.Child("pool"))
	f.DNSLabel(p.Child("device"), d.Device)
	if d.ShareID != nil {
		f.Add(validate.UUID(context.Background(), operation.Operation{}, p.Child("shareID"), d.ShareID, nil)...)
	}
	if !rule.given {
		f.Invalid(p, sharedDevice(deviceShareOf(d)), "must be an allocated device in the claim")
	}
	if n := len(d.Conditions); n > resourcev1.AllocatedDeviceStatusMaxConditions {
		f.Add(field.TooMany(p.Child("conditions"), n, resourcev1.AllocatedDeviceStatusMaxConditions))
	}
	f.Add(metavalidation.ValidateConditions(d.Conditions, p.Child("conditions"))...)
	if d.Data != nil && len(d.Data.Raw) > 0 {
		checkRaw(f, *d.Data, p.Child("data"), rawExtensionLimits{resourcev1.AllocatedDeviceStatusDataMaxLength,
			rule.stored})
	}
	if d.NetworkData != nil {
		checkNetwork(f, d.NetworkData, p.Child("networkData"))
	}
}

func checkNetwork(f *typed.Errors, n *resourcev1.NetworkDeviceData, p *field.Path) {
	for _, x := range []struct {
		child, value string
		most         int
	}{
		{"interfaceName", n.InterfaceName, resourcev1.NetworkDeviceDataInterfaceNameMaxLength},
		{"hardwareAddress", n.HardwareAddress, resourcev1.NetworkDeviceDataHardwareAddressMaxLength},
	} {
		if len(x.value) > x.most {
			f.Add(field.TooLong(p.Child(x.child), "", x.most))
		}
	}
	checkUnique(f, newListChecker(p.Child("ips"), n.IPs, resourcev1.NetworkDeviceDataMaxIPs), identity,
		func(s *string, at *field.Path) {
			f.Add(validation.IsValidInterfaceAddress(at, *s)...)
		})
}
