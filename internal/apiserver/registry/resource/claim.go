package resource

import (
	"context"
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/podspec"
	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
	"github.com/gantry-project/gantry/internal/apiserver/registry/typed"
)

func claims(labels NamespaceLabels) resourcedef.Kind {
	k := newKind("resourceclaims", "ResourceClaim", typed.NewNamespacedTypes[resourcev1.ResourceClaim,
		resourcev1.ResourceClaimList]())
	k.Types.HasStatus, k.Types.NoGenerate = true, true
	k.Types.StatusResetFields = []string{"metadata"}
	k.Rules = typed.Rules[resourcev1.ResourceClaim]{
		Default: func(c *resourcev1.ResourceClaim) {
			defaultDevices(&c.Spec.Devices)
			defaultStatus(&c.Status)
		},
		PrepareForCreate: func(_ context.Context, c *resourcev1.ResourceClaim) { dropFromClaim(&c.Spec, nil) },
		PrepareForUpdate: func(c, previous *resourcev1.ResourceClaim) {
			dropFromClaim(&c.Spec, &previous.Spec)
		},
		PrepareForStatusUpdate: func(c, previous *resourcev1.ResourceClaim) {
			dropFromStatus(&c.Status, &previous.Status)
			dropDeallocated(&c.Status, &previous.Status)
		},
		Validate:                 checkClaim,
		ValidateDeclaratively:    declaredClaim,
		ValidateStatus:           checkStatus,
		AllowUnconditionalUpdate: true,
	}.Untyped()
	checkAdminAccess(&k, labels, func(o runtime.Object) (string, *resourcev1.ResourceClaimSpec) {
		c := o.(*resourcev1.ResourceClaim)
		return c.Namespace, &c.Spec
	})
	status := k.Rules.ValidateStatus
	k.Rules.ValidateStatus = func(ctx context.Context, o, old runtime.Object) field.ErrorList {
		c, previous := o.(*resourcev1.ResourceClaim), old.(*resourcev1.ResourceClaim)
		return append(adminStatusAllowed(ctx, c, previous, labels), status(ctx, o, old)...)
	}
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{
			printers.NameColumn(),
			printers.StringColumn("State", "A summary of the current state (allocated, pending, reserved, etc.)."),
			printers.AgeColumn(),
		},
		Row: typed.RowFunc(func(c *resourcev1.ResourceClaim, o resourcedef.RowOptions) []any {
			return []any{c.Name, claimState(c), printers.TimestampSince(c.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

// claimState is what becomes of a claim, in the words of upstream's table.
func claimState(c *resourcev1.ResourceClaim) string {
	var out []string
	if c.DeletionTimestamp != nil {
		out = append(out, "deleted")
	}
	switch {
	case c.Status.Allocation != nil && len(c.Status.ReservedFor) > 0:
		out = append(out, "allocated", "reserved")
	case c.Status.Allocation != nil:
		out = append(out, "allocated")
	case c.DeletionTimestamp == nil:
		out = append(out, "pending")
	}
	return strings.Join(out, ",")
}

func templates(labels NamespaceLabels) resourcedef.Kind {
	k := newKind("resourceclaimtemplates",
		"ResourceClaimTemplate", typed.NewNamespacedTypes[resourcev1.ResourceClaimTemplate,
			resourcev1.ResourceClaimTemplateList]())
	k.Types.NoGenerate = true
	k.Rules = typed.Rules[resourcev1.ResourceClaimTemplate]{
		Default: func(t *resourcev1.ResourceClaimTemplate) { defaultDevices(&t.Spec.Spec.Devices) },
		PrepareForCreate: func(_ context.Context, t *resourcev1.ResourceClaimTemplate) {
			dropFromClaim(&t.Spec.Spec, nil)
		},
		PrepareForUpdate: func(t, previous *resourcev1.ResourceClaimTemplate) {
			dropFromClaim(&t.Spec.Spec, &previous.Spec.Spec)
		},
		Validate:                 checkTemplate,
		ValidateDeclaratively:    declaredTemplate,
		AllowUnconditionalUpdate: true,
	}.Untyped()
	checkAdminAccess(&k, labels, func(o runtime.Object) (string, *resourcev1.ResourceClaimSpec) {
		t := o.(*resourcev1.ResourceClaimTemplate)
		return t.Namespace, &t.Spec.Spec
	})
	k.Table = resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{printers.NameColumn(), printers.AgeColumn()},
		Row: typed.RowFunc(func(t *resourcev1.ResourceClaimTemplate, o resourcedef.RowOptions) []any {
			return []any{t.Name, printers.TimestampSince(t.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

// checkAdminAccess lets claims with admin access be made only in namespaces whose label allows it.
// KEP-5018.
func checkAdminAccess(k *resourcedef.Kind, labels NamespaceLabels,
	of func(runtime.Object) (string, *resourcev1.ResourceClaimSpec)) {
	check := k.Rules.Validate
	k.Rules.Validate = func(ctx context.Context, o runtime.Object) field.ErrorList {
		namespace, s := of(o)
		return append(adminAccessAllowed(ctx, s, namespace, labels), check(ctx, o)...)
	}
}

func adminAccessAllowed(ctx context.Context, s *resourcev1.ResourceClaimSpec, namespace string,
	labels NamespaceLabels) field.ErrorList {
	for i, r := range s.Devices.Requests {
		if r.Exactly == nil || !typed.Deref(r.Exactly.AdminAccess) {
			continue
		}
		at := spec().Child("devices", "requests").Index(i).Child("adminAccess")
		if errs := adminNamespace(ctx, at, namespace, labels); len(errs) > 0 {
			return errs
		}
	}
	return nil
}

// adminStatusAllowed is the same for what a status gives with admin access, unless it had some.
func adminStatusAllowed(ctx context.Context, c, previous *resourcev1.ResourceClaim,
	labels NamespaceLabels) field.ErrorList {
	first := func(c *resourcev1.ResourceClaim) int {
		if c.Status.Allocation == nil {
			return -1
		}
		return slices.IndexFunc(c.Status.Allocation.Devices.Results,
			func(r resourcev1.DeviceRequestAllocationResult) bool { return typed.Deref(r.AdminAccess) })
	}
	i := first(c)
	if i < 0 || first(previous) >= 0 {
		return nil
	}
	at := field.NewPath("status", "allocation", "devices", "results").Index(i).Child("adminAccess")
	return adminNamespace(ctx, at, c.Namespace, labels)
}

// adminNamespace wants the label of a namespace that allows admin access.
func adminNamespace(ctx context.Context, at *field.Path, namespace string, labels NamespaceLabels) field.ErrorList {
	have, err := labels(ctx, namespace)
	if err != nil {
		return field.ErrorList{
			field.InternalError(at, fmt.Errorf("could not retrieve namespace to verify admin access: %w", err))}
	}
	if have[resourcev1.DRAAdminNamespaceLabelKey] != "true" {
		return field.ErrorList{
			field.Forbidden(at,
				fmt.Sprintf("admin access to devices requires the `%s: true` label on the containing namespace",
					resourcev1.DRAAdminNamespaceLabelKey))}
	}
	return nil
}

func checkClaim(c, previous *resourcev1.ResourceClaim) field.ErrorList {
	var f typed.Errors
	if previous != nil {
		sameSpec(&f, spec(), &c.Spec, &previous.Spec)
		return f.List()
	}
	checkDevices(&f, &c.Spec.Devices, spec().Child("devices"), false)
	return f.List()
}

func checkTemplate(t, previous *resourcev1.ResourceClaimTemplate) field.ErrorList {
	var f typed.Errors
	meta := &t.Spec.ObjectMeta
	f.Add(podspec.ValidateClaimMeta(meta, spec().Child("metadata"))...)
	checkDevices(&f, &t.Spec.Spec.Devices, spec().Child("spec", "devices"), false)
	if previous != nil && !apiequality.Semantic.DeepEqual(t.Spec, previous.Spec) {
		f.Invalid(spec(), typed.GoFields(t.Spec), apivalidation.FieldImmutableErrorMsg)
	}
	return f.List()
}

func sameSpec(f *typed.Errors, p *field.Path, s, previous *resourcev1.ResourceClaimSpec) {
	f.ImmutableWithoutValue(p, s, previous)
}
