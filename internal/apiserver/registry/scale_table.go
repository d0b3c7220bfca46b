package registry

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/apiserver/registry/column"
	"github.com/gantry-project/gantry/internal/apiserver/registry/kind"
)

// scaleTable is how a Scale prints.
func scaleTable() kind.Table {
	spec, status := autoscalingv1.ScaleSpec{}.SwaggerDoc(), autoscalingv1.ScaleStatus{}.SwaggerDoc()
	return kind.Table{
		Columns: []metav1.TableColumnDefinition{
			column.Name(), column.Int("Desired", spec["replicas"]), column.Int("Available", status["replicas"]), column.Age(),
		},
		Row: func(o runtime.Object, opt kind.RowOptions) []any {
			sc := o.(*autoscalingv1.Scale)
			return []any{sc.Name, int64(sc.Spec.Replicas), int64(sc.Status.Replicas), column.Since(sc.CreationTimestamp, opt.Now)}
		},
	}
}
