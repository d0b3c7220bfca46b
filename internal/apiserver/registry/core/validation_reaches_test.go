package core_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/randfill"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// TestAnyObject sends objects filled at random through every rule of every row: none may panic, and
// defaults applied twice change nothing.
func TestAnyObject(t *testing.T) {
	for name, k := range rows(t) {
		t.Run(name, func(t *testing.T) {
			const seed, objects = 37, 150
			fill := randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
				func(q *resource.Quantity, c randfill.Continue) {
					*q = *resource.NewMilliQuantity(c.Int63n(5000)-1000, resource.DecimalSI)
				},
				func(m *metav1.ManagedFieldsEntry, _ randfill.Continue) { *m = metav1.ManagedFieldsEntry{} },
				func(o *metav1.DeleteOptions, _ randfill.Continue) { *o = metav1.DeleteOptions{} },
				// Most texts are a few letters, so that names collide and selectors match.
				func(s *string, c randfill.Continue) {
					*s = []string{"", "a", "b", "None", "10.96.0.9", "x y", "Always"}[c.Intn(7)]
				},
			)
			for i := range objects {
				a, b := k.Types.New(), k.Types.New()
				fill.Fill(a)
				fill.Fill(b)
				if err := throughRules(k, a, b); err != nil {
					t.Fatalf("object %d: %v, want no error", i, err)
				}
			}
		})
	}
}

func throughRules(k resourcedef.Kind, a, b runtime.Object) error {
	ctx, r := context.Background(), k.Rules
	if r.Default != nil {
		r.Default(a)
		once := a.DeepCopyObject()
		if r.Default(a); !apiequality.Semantic.DeepEqual(a, once) {
			return fmt.Errorf("defaults applied twice differ:\n%s", cmp.Diff(once, a))
		}
		r.Default(b)
	}
	_, _, _ = create(k, a.DeepCopyObject()) // most are refused; none may panic
	if r.BeginUpdate != nil {
		if done, err := r.BeginUpdate(ctx, b.DeepCopyObject(), a, true); err == nil {
			done(false)
		}
	}
	if f := r.PrepareUpdate; f != nil {
		f(ctx, b.DeepCopyObject(), a.DeepCopyObject())
	}
	if f := r.PrepareStatus; f != nil {
		f(ctx, b.DeepCopyObject(), a.DeepCopyObject())
	}
	for _, f := range []func(context.Context, runtime.Object, runtime.Object) field.ErrorList{r.ValidateUpdate,
		r.ValidateStatus} {
		if f != nil {
			f(ctx, b, a)
			f(ctx, a.DeepCopyObject(), a)
		}
	}
	if f := r.CheckGracefulDelete; f != nil {
		f(ctx, a, &metav1.DeleteOptions{})
	}
	if f := r.Fields; f != nil {
		f(a)
	}
	if cells := k.Table.Row(a, resourcedef.RowOptions{Now: metav1.Now()}); len(cells) != len(k.Table.Columns) {
		return fmt.Errorf("%d cells for %d columns", len(cells), len(k.Table.Columns))
	}
	return nil
}
