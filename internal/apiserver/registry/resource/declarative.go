package resource

import (
	"context"

	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateField runs the declarative validation of a part of an object. A part that an update
// leaves as it is is not validated.
func validateField[T any](ctx context.Context, op operation.Operation, p declaredField[T]) field.ErrorList {
	if p.old != nil && apiequality.Semantic.DeepEqual(p.value, p.old) {
		return nil
	}
	return p.validate(ctx, op, p.at, p.value, p.old)
}

// declaredField is a part of an object with its declarative validation; old is nil for a create.
type declaredField[T any] struct {
	at         *field.Path
	value, old *T
	validate   func(context.Context, operation.Operation, *field.Path, *T, *T) field.ErrorList
}

// part returns a part of an object, or nil if there is no object.
func part[T, F any](o *T, of func(*T) *F) *F {
	if o == nil {
		return nil
	}
	return of(o)
}

func declaredClaim(ctx context.Context, op operation.Operation, c, old *resourcev1.ResourceClaim) field.ErrorList {
	claimSpec := func(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaimSpec { return &c.Spec }
	errs := validateField(ctx, op, declaredField[resourcev1.ResourceClaimSpec]{spec(), &c.Spec, part(old, claimSpec),
		func(ctx context.Context, op operation.Operation, p *field.Path,
			s, old *resourcev1.ResourceClaimSpec) field.ErrorList {
			if errs := validate.Immutable(ctx, op, p, s, old); len(errs) > 0 {
				return errs
			}
			return resourcev1.Validate_ResourceClaimSpec(ctx, op, p, s, old)
		}})
	return append(errs, validateField(ctx, op, declaredField[resourcev1.ResourceClaimStatus]{field.NewPath("status"),
		&c.Status, part(old, func(c *resourcev1.ResourceClaim) *resourcev1.ResourceClaimStatus { return &c.Status }),
		resourcev1.Validate_ResourceClaimStatus})...)
}

func declaredTemplate(ctx context.Context, op operation.Operation,
	t, old *resourcev1.ResourceClaimTemplate) field.ErrorList {
	return validateField(ctx, op, declaredField[resourcev1.ResourceClaimTemplateSpec]{spec(), &t.Spec,
		part(old, func(t *resourcev1.ResourceClaimTemplate) *resourcev1.ResourceClaimTemplateSpec { return &t.Spec }),
		resourcev1.Validate_ResourceClaimTemplateSpec})
}

func declaredSlice(ctx context.Context, op operation.Operation, s, old *resourcev1.ResourceSlice) field.ErrorList {
	op.Options = map[string]bool{"DRAPartitionableDevicesType": false}
	return validateField(ctx, op, declaredField[resourcev1.ResourceSliceSpec]{spec(), &s.Spec,
		part(old, func(s *resourcev1.ResourceSlice) *resourcev1.ResourceSliceSpec { return &s.Spec }),
		resourcev1.Validate_ResourceSliceSpec})
}

func declaredClass(ctx context.Context, op operation.Operation, c, old *resourcev1.DeviceClass) field.ErrorList {
	var errs field.ErrorList
	if c.Name != "" && old == nil {
		errs = validate.LongName(ctx, op, field.NewPath("metadata", "name"), &c.Name, nil)
	}
	return append(errs, validateField(ctx, op, declaredField[resourcev1.DeviceClassSpec]{spec(), &c.Spec,
		part(old, func(c *resourcev1.DeviceClass) *resourcev1.DeviceClassSpec { return &c.Spec }),
		resourcev1.Validate_DeviceClassSpec})...)
}

func declaredTaintRule(ctx context.Context, op operation.Operation,
	r, old *resourcev1.DeviceTaintRule) field.ErrorList {
	errs := validateField(ctx, op, declaredField[resourcev1.DeviceTaintRuleSpec]{spec(), &r.Spec,
		part(old, func(r *resourcev1.DeviceTaintRule) *resourcev1.DeviceTaintRuleSpec { return &r.Spec }),
		resourcev1.Validate_DeviceTaintRuleSpec})
	return append(errs, validateField(ctx, op, declaredField[resourcev1.DeviceTaintRuleStatus]{
		field.NewPath("status"), &r.Status,
		part(old, func(r *resourcev1.DeviceTaintRule) *resourcev1.DeviceTaintRuleStatus { return &r.Status }),
		resourcev1.Validate_DeviceTaintRuleStatus})...)
}
