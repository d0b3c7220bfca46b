package apiserver

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/gantry-project/gantry/internal/apiserver/registry/printers"
)

// componentStatusREST serves the deprecated ComponentStatus (`kubectl get cs`). It has etcd alone,
// which each request checks anew; the scheduler and the controllers of this process have no health
// address.
type componentStatusREST struct {
	ping func(context.Context) error
}

var (
	_ rest.Getter               = componentStatusREST{}
	_ rest.Lister               = componentStatusREST{}
	_ rest.Scoper               = componentStatusREST{}
	_ rest.SingularNameProvider = componentStatusREST{}
	_ rest.ShortNamesProvider   = componentStatusREST{}
)

const etcdComponent = "etcd-0"

func (componentStatusREST) New() runtime.Object     { return &corev1.ComponentStatus{} }
func (componentStatusREST) NewList() runtime.Object { return &corev1.ComponentStatusList{} }
func (componentStatusREST) Destroy()                {}
func (componentStatusREST) NamespaceScoped() bool   { return false }
func (componentStatusREST) GetSingularName() string { return "componentstatus" }
func (componentStatusREST) ShortNames() []string    { return []string{"cs"} }

// Get implements rest.Getter.
func (s componentStatusREST) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	if name != etcdComponent {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "componentstatus"}, name)
	}
	return s.etcd(ctx), nil
}

// List implements rest.Lister.
func (s componentStatusREST) List(ctx context.Context, o *metainternalversion.ListOptions) (runtime.Object, error) {
	out := &corev1.ComponentStatusList{Items: []corev1.ComponentStatus{}}
	if o != nil && o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set{}) {
		return out, nil
	}
	if o != nil && o.FieldSelector != nil && !o.FieldSelector.Matches(fields.Set{"metadata.name": etcdComponent}) {
		return out, nil
	}
	out.Items = append(out.Items, *s.etcd(ctx))
	return out, nil
}

// etcd returns the status of etcd, checked now.
func (s componentStatusREST) etcd(ctx context.Context) *corev1.ComponentStatus {
	c := corev1.ComponentCondition{Type: corev1.ComponentHealthy, Status: corev1.ConditionTrue, Message: "ok"}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := s.ping(ctx); err != nil {
		c.Status, c.Message, c.Error = corev1.ConditionFalse, "", err.Error()
	}
	return &corev1.ComponentStatus{ObjectMeta: metav1.ObjectMeta{Name: etcdComponent},
		Conditions: []corev1.ComponentCondition{c}}
}

// ConvertToTable implements rest.TableConvertor.
func (componentStatusREST) ConvertToTable(_ context.Context, obj, _ runtime.Object) (*metav1.Table, error) {
	out := &metav1.Table{
		ColumnDefinitions: []metav1.TableColumnDefinition{
			printers.NameColumn(), printers.StringColumn("Status", "Status of the component conditions"),
			printers.StringColumn("Message", "Message of the component conditions"),
			printers.StringColumn("Error", "Error of the component conditions"),
		},
		Rows: []metav1.TableRow{},
	}
	add := func(s *corev1.ComponentStatus) {
		status, message, why := "Unknown", "", ""
		for _, c := range s.Conditions {
			if c.Type != corev1.ComponentHealthy {
				continue
			}
			status, message, why = "Unhealthy", c.Message, c.Error
			if c.Status == corev1.ConditionTrue {
				status = "Healthy"
			}
		}
		out.Rows = append(out.Rows, metav1.TableRow{Cells: []any{s.Name, status, message, why},
			Object: runtime.RawExtension{Object: s}})
	}
	switch o := obj.(type) {
	case *corev1.ComponentStatus:
		add(o)
	case *corev1.ComponentStatusList:
		for i := range o.Items {
			add(&o.Items[i])
		}
	}
	return out, nil
}
