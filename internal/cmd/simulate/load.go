package simulate

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/simulate/scenario"
)

func newLoad(streams cli.IO) *cobra.Command {
	s := &simulation{Inspector: cli.Inspector{Out: streams.Out}}
	c := &cobra.Command{
		Use:   "load KIND/NAME=CHANGE ...",
		Short: "Say what more or less load brings: autoscaling, quota, room, throttling, evictions by memory",
		Long: "load changes what the ready Pods of workloads take together, from now on: by a share (+50%, -30%), to " +
			"a multiple (2x), or to an amount of cores (800m) or memory (512Mi) for each Pod. The load is spread " +
			"over the Pods that are ready. What is taken now is what the metrics API tells, or where there is none " +
			"the kubelets; where nothing tells, requests are taken for it, and a note says so.",
		Example: "  gantry simulate load deployment/web=+50%\n  gantry simulate load deployment/web=2x " +
			"statefulset/db=-30% -o json\n  gantry simulate load deployment/web=800m",
		RunE: func(c *cobra.Command, args []string) error {
			return s.run(c.Context(), func() (scenario.Change, error) {
				var l scenario.Load
				for _, a := range args {
					t, err := scenario.ParseLoad(a, s.Namespace)
					if err != nil {
						return nil, err
					}
					l.Targets = append(l.Targets, t)
				}
				return &l, nil
			})
		},
	}
	c.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cli.UsageError(errors.New("gantry simulate load wants workloads as deployment/NAME=+50%"))
		}
		return nil
	}
	s.flags(c)
	return c
}
