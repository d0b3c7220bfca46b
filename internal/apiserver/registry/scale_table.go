package registry

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
	"github.com/gantry-project/gantry/internal/apiserver/registry/resourcedef"
)

// scaleTable returns the columns that `kubectl get --subresource=scale` shows.
func scaleTable() resourcedef.Table {
	spec, status := autoscalingv1.ScaleSpec{}.SwaggerDoc(), autoscalingv1.ScaleStatus{}.SwaggerDoc()
	return resourcedef.Table{
		Columns: []metav1.TableColumnDefinition{
			printers.StringColumn("Name", metav1.ObjectMeta{}.SwaggerDoc()["name"]),
			printers.IntColumn("Desired", spec["replicas"]),
			printers.IntColumn("Available", status["replicas"]), printers.AgeColumn(),
		},
		Row: func(o runtime.Object, opt resourcedef.RowOptions) []any {
			sc := o.(*autoscalingv1.Scale)
			return []any{sc.Name, int64(sc.Spec.Replicas), int64(sc.Status.Replicas),
				printers.TimestampSince(sc.CreationTimestamp, opt.Now)}
		},
	}
}
