package features_test

import (
	"encoding/json"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/test/expect"
)

// cell is what kubectl get prints of a Pod in a column.
func (w *fixture) cell(pod, column string) string {
	w.t.Helper()
	raw, err := w.Client.(*kubernetes.Clientset).CoreV1().RESTClient().Get().Namespace("default").Resource("pods").Name(
		pod).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(w.ctx).Raw()
	expect.NoError(w.t, err)
	var table metav1.Table
	expect.NoError(w.t, json.Unmarshal(raw, &table))
	for i, c := range table.ColumnDefinitions {
		if c.Name == column && len(table.Rows) == 1 {
			return fmt.Sprint(table.Rows[0].Cells[i])
		}
	}
	w.t.Fatalf("no column %s in %s", column, raw)
	return ""
}

func kindOf(f journal.Fact) string { return journal.Kind(f) }

// exec runs a command in the Pod's first container and returns what it printed.
func (w *fixture) exec(p *v1.Pod, command ...string) string {
	w.t.Helper()
	_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
	r, err := w.Runtime(p.Spec.NodeName).ExecSync(w.ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command})
	expect.NoError(w.t, err)
	return string(r.Stdout)
}
