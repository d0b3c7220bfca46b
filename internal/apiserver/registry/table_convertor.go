package registry

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// tableConvertor makes the Table that `kubectl get` prints, from the kind's columns; a kind without
// Row gets name and age.
type tableConvertor struct {
	resourcedef.Table
	resource schema.GroupResource
}

// ConvertToTable implements rest.TableConvertor for an object or a list.
func (t *tableConvertor) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	if t.Row == nil {
		return rest.NewDefaultTableConvertor(t.resource).ConvertToTable(ctx, obj, options)
	}
	out := &metav1.Table{Rows: []metav1.TableRow{}}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		out.ColumnDefinitions = t.Columns
	}
	now := resourcedef.RowOptions{Now: metav1.NewTime(time.Now())}
	cells := t.Row
	if t.ListRow != nil && meta.IsListType(obj) {
		cells = t.ListRow(obj)
	}
	one := func(o runtime.Object) error {
		row := metav1.TableRow{Cells: cells(o, now), Object: runtime.RawExtension{Object: o}}
		if t.RowObject != nil {
			row.Object.Object = t.RowObject(o)
		}
		if t.Conditions != nil {
			row.Conditions = t.Conditions(o)
		}
		out.Rows = append(out.Rows, row)
		return nil
	}
	if !meta.IsListType(obj) {
		if m, err := meta.Accessor(obj); err == nil {
			out.ResourceVersion = m.GetResourceVersion()
		}
		return out, one(obj)
	}
	if m, err := meta.ListAccessor(obj); err == nil {
		out.ResourceVersion, out.Continue, out.RemainingItemCount = m.GetResourceVersion(), m.GetContinue(),
			m.GetRemainingItemCount()
	}
	return out, meta.EachListItem(obj, one)
}
