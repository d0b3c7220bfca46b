package apiserver

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Component statuses are made up when asked for: etcd is there and well.
func TestComponentStatuses(t *testing.T) {
	_, c := shared(t)
	list, err := c.CoreV1().ComponentStatuses().List(t.Context(),
		metav1.ListOptions{FieldSelector: "metadata.name=etcd-0"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Conditions[0].Status != corev1.ConditionTrue {
		t.Errorf("got %+v, %v, want no error, 1 in Items and Status ConditionTrue", list, err)
	}
	if _, err := c.CoreV1().ComponentStatuses().Get(t.Context(), "etcd-0", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := c.CoreV1().ComponentStatuses().Get(t.Context(), "x", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("an unknown component: %v", err)
	}
	sick := componentStatusREST{func(context.Context) error { return errors.New("no leader") }}
	o, err := sick.Get(t.Context(), "etcd-0", nil)
	if err != nil {
		t.Fatal(err)
	}
	table, err := sick.ConvertToTable(t.Context(), o, nil)
	if err != nil || fmt.Sprint(table.Rows[0].Cells...) != fmt.Sprint("etcd-0", "Unhealthy", "", "no leader") {
		t.Errorf("got %v, %v, want no error and table.Rows[0].Cells %v", table.Rows, err,
			fmt.Sprint("etcd-0", "Unhealthy", "", "no leader"))
	}
}
