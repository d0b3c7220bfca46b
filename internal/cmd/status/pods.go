package status

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/dashboard/blocks"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/simulate/source"
)

// drawPods draws the nodes with their Pods, as the dashboard's view Now does.
func drawPods(ctx context.Context, e *cli.Inspector) error {
	if e.Output != "svg" {
		return cli.UsageError(errors.New("--pods draws the nodes with their Pods: it wants -o svg"))
	}
	client, err := e.NewClient()
	if err != nil {
		return err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	p := blocks.Picture{Used: map[string]blocks.Used{}}
	for i := range nodes.Items {
		p.Nodes = append(p.Nodes, blocks.OfNode(&nodes.Items[i]))
	}
	figures, _ := source.Usage(ctx, client) // without figures the bars have no use
	for i := range pods.Items {
		x := &pods.Items[i]
		p.Pods = append(p.Pods, blocks.OfPod(x))
		for _, a := range figures[pod.Key(x)] {
			u := p.Used[x.Spec.NodeName]
			p.Used[x.Spec.NodeName] = blocks.Used{CPU: u.CPU + a.CPU, Memory: u.Memory + a.Memory}
		}
	}
	return p.WriteSVG(e.Out)
}
