// Command custom-scheduler is a scheduler with one plugin of its own: Quiet keeps Pods off nodes
// that are too loud.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/cli"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/scheduler/app"
)

// Name enables the plugin in a KubeSchedulerConfiguration.
const Name = "Quiet"

// Args are its arguments there.
type Args struct {
	Label      string `json:"label"`      // of nodes: how loud they are
	AtMost     int    `json:"atMost"`     // louder ones are refused
	PreferHush bool   `json:"preferHush"` // quieter nodes score more
}

// Quiet is the plugin.
type Quiet struct{ args Args }

var (
	_ framework.FilterPlugin = (*Quiet)(nil)
	_ framework.ScorePlugin  = (*Quiet)(nil)
)

// New is its factory.
func New(_ context.Context, raw runtime.Object, _ framework.Handle) (framework.Plugin, error) {
	q := &Quiet{Args{Label: "example.com/loudness", AtMost: 100}}
	if err := app.DecodeInto(raw, &q.args); err != nil {
		return nil, err
	}
	return q, nil
}

// Name is Name.
func (*Quiet) Name() string { return Name }

func (q *Quiet) loudness(n framework.NodeInfo) int {
	loud, err := strconv.Atoi(n.Node().Labels[q.args.Label])
	if err != nil {
		return 0
	}
	return loud
}

// Filter refuses loud nodes.
func (q *Quiet) Filter(_ context.Context, _ framework.CycleState, _ *v1.Pod, n framework.NodeInfo) *framework.Status {
	if loud := q.loudness(n); loud > q.args.AtMost {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable,
			fmt.Sprintf("node(s) were louder than %d", q.args.AtMost))
	}
	return nil
}

// Score prefers quiet nodes.
func (q *Quiet) Score(_ context.Context, _ framework.CycleState, _ *v1.Pod,
	n framework.NodeInfo) (int64, *framework.Status) {
	if !q.args.PreferHush {
		return 0, nil
	}
	return int64(max(0, 100-q.loudness(n))), nil
}

// ScoreExtensions has none.
func (*Quiet) ScoreExtensions() framework.ScoreExtensions { return nil }

func main() {
	os.Exit(cli.Run(app.New(app.WithPlugin(Name, New))))
}
