package resource

import (
	"context"
	"fmt"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
	"github.com/gantry-project/gantry/internal/apiserver/registry/row"
	"github.com/gantry-project/gantry/internal/apiserver/registry/template"
)

func claims(labels NamespaceLabels) kind.Kind {
	k := names("resourceclaims", "ResourceClaim", row.InNamespace[resourcev1.ResourceClaim, resourcev1.ResourceClaimList]())
	k.Types.HasStatus, k.Types.NoGenerate = true, true
	k.Rules = row.Rules[resourcev1.ResourceClaim]{
		Default:       func(c *resourcev1.ResourceClaim) { defaultDevices(&c.Spec.Devices); defaultStatus(&c.Status) },
		Create:        func(_ context.Context, c *resourcev1.ResourceClaim) { dropFromClaim(&c.Spec, nil) },
		Update:        func(c, was *resourcev1.ResourceClaim) { dropFromClaim(&c.Spec, &was.Spec) },
		Status:        func(c, was *resourcev1.ResourceClaim) { dropFromStatus(&c.Status, &was.Status) },
		Check:         checkClaim,
		CheckStatus:   checkStatus,
		Unconditional: true,
	}.Rules()
	needNamespace(&k, labels, func(o runtime.Object) (string, *resourcev1.ResourceClaimSpec) {
		c := o.(*resourcev1.ResourceClaim)
		return c.Namespace, &c.Spec
	})
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Def("State", "A summary of the current state (allocated, pending, reserved, etc.)."), column.Age(),
		},
		Row: row.Cells(func(c *resourcev1.ResourceClaim, o kind.RowOptions) []any {
			return []any{c.Name, state(c), column.Since(c.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

// state is what becomes of a claim, in the words of upstream's table.
func state(c *resourcev1.ResourceClaim) string {
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

func templates(labels NamespaceLabels) kind.Kind {
	k := names("resourceclaimtemplates", "ResourceClaimTemplate", row.InNamespace[resourcev1.ResourceClaimTemplate, resourcev1.ResourceClaimTemplateList]())
	k.Types.NoGenerate = true
	k.Rules = row.Rules[resourcev1.ResourceClaimTemplate]{
		Default:       func(t *resourcev1.ResourceClaimTemplate) { defaultDevices(&t.Spec.Spec.Devices) },
		Create:        func(_ context.Context, t *resourcev1.ResourceClaimTemplate) { dropFromClaim(&t.Spec.Spec, nil) },
		Update:        func(t, was *resourcev1.ResourceClaimTemplate) { dropFromClaim(&t.Spec.Spec, &was.Spec.Spec) },
		Check:         checkTemplate,
		Unconditional: true,
	}.Rules()
	needNamespace(&k, labels, func(o runtime.Object) (string, *resourcev1.ResourceClaimSpec) {
		t := o.(*resourcev1.ResourceClaimTemplate)
		return t.Namespace, &t.Spec.Spec
	})
	k.Table = kind.Table{
		Columns: []metav1.TableColumnDefinition{column.Name(), column.Age()},
		Row: row.Cells(func(t *resourcev1.ResourceClaimTemplate, o kind.RowOptions) []any {
			return []any{t.Name, column.Since(t.CreationTimestamp, o.Now)}
		}),
	}
	return k
}

// needNamespace lets claims with admin access be made only in namespaces whose label allows it. KEP-5018.
func needNamespace(k *kind.Kind, labels NamespaceLabels, of func(runtime.Object) (string, *resourcev1.ResourceClaimSpec)) {
	check := k.Rules.Validate
	k.Rules.Validate = func(ctx context.Context, o runtime.Object) field.ErrorList {
		errs := check(ctx, o)
		namespace, s := of(o)
		return append(errs, mayAdministrate(ctx, s, namespace, labels)...)
	}
}

func mayAdministrate(ctx context.Context, s *resourcev1.ResourceClaimSpec, namespace string, labels NamespaceLabels) field.ErrorList {
	at := spec().Child("devices", "requests", "adminAccess")
	for _, r := range s.Devices.Requests {
		if r.Exactly == nil || !row.Value(r.Exactly.AdminAccess) {
			continue
		}
		have, err := labels(ctx, namespace)
		if err != nil {
			return field.ErrorList{field.InternalError(at, fmt.Errorf("could not retrieve namespace to verify admin access: %w", err))}
		}
		if have[resourcev1.DRAAdminNamespaceLabelKey] != "true" {
			return field.ErrorList{field.Forbidden(at, fmt.Sprintf("admin access to devices requires the `%s: true` label on the containing namespace", resourcev1.DRAAdminNamespaceLabelKey))}
		}
	}
	return nil
}

func checkClaim(c, was *resourcev1.ResourceClaim) field.ErrorList {
	var f row.Findings
	if was != nil {
		sameSpec(&f, spec(), &c.Spec, &was.Spec)
		return f.List()
	}
	checkDevices(&f, &c.Spec.Devices, spec().Child("devices"), false)
	return f.List()
}

func checkTemplate(t, was *resourcev1.ResourceClaimTemplate) field.ErrorList {
	var f row.Findings
	meta := &t.Spec.ObjectMeta
	f.Add(template.ValidateClaimMeta(meta, spec().Child("metadata"))...)
	checkDevices(&f, &t.Spec.Spec.Devices, spec().Child("spec", "devices"), false)
	if was != nil && !apiequality.Semantic.DeepEqual(t.Spec, was.Spec) {
		f.Invalid(spec(), row.Bare(t.Spec), apivalidation.FieldImmutableErrorMsg)
	}
	return f.List()
}

func sameSpec(f *row.Findings, p *field.Path, s, was *resourcev1.ResourceClaimSpec) {
	f.SameUnshown(p, s, was)
}
