package dashboard

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/cli"
)

// what a field suggests
const (
	suggestNodes     = "nodes"
	suggestWorkloads = "workloads"
)

// askSuggest lists what a field may be: node names, or NAMESPACE/KIND/NAME of what can be rolled
// out. What the person may not list is an error.
func askSuggest(ctx context.Context, a question) (any, error) {
	out := []string{}
	all := metav1.ListOptions{ResourceVersion: "0"}
	switch of := a.query.Get("of"); of {
	case suggestNodes:
		list, err := a.client.CoreV1().Nodes().List(ctx, all)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			out = append(out, list.Items[i].Name)
		}
	case suggestWorkloads:
		apps := a.client.AppsV1()
		deployments, err := apps.Deployments("").List(ctx, all)
		if err != nil {
			return nil, err
		}
		for i := range deployments.Items {
			out = append(out, workload("deployment", &deployments.Items[i]))
		}
		sets, err := apps.StatefulSets("").List(ctx, all)
		if err != nil {
			return nil, err
		}
		for i := range sets.Items {
			out = append(out, workload("statefulset", &sets.Items[i]))
		}
		daemons, err := apps.DaemonSets("").List(ctx, all)
		if err != nil {
			return nil, err
		}
		for i := range daemons.Items {
			out = append(out, workload("daemonset", &daemons.Items[i]))
		}
	default:
		return nil, cli.UsageError(fmt.Errorf("of is %q: must be %s or %s", of, suggestNodes, suggestWorkloads))
	}
	slices.Sort(out)
	return out, nil
}

func workload(kind string, o metav1.Object) string {
	return o.GetNamespace() + "/" + kind + "/" + o.GetName()
}
