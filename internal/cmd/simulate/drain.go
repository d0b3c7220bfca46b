package simulate

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/simulate/scenario"
)

func newDrain(streams cli.IO) *cobra.Command {
	s := &simulation{Inspector: cli.Inspector{Out: streams.Out}}
	var d scenario.Drain
	zone, grace := "", -1
	c := &cobra.Command{
		Use:   "drain [node/NAME ... | zone/NAME]",
		Short: "Say what draining nodes brings: order, budgets that hold it up, where Pods go, what stays pending",
		Long: "drain cordons the nodes in the copy and evicts their Pods as `kubectl drain --ignore-daemonsets` " +
			"does, several nodes one after the other.",
		Example: "  gantry simulate drain node/node-1\n  gantry simulate drain node/node-1 node/node-2 -o json\n" +
			"  gantry simulate drain zone/eu-1 --force",
		RunE: func(c *cobra.Command, args []string) error {
			names, err := nodesOrZone(args, &zone)
			if err != nil {
				return err
			}
			if grace >= 0 {
				d.GracePeriod = &grace
			}
			return s.run(c.Context(), func() (scenario.Change, error) {
				one := d
				one.Nodes, one.Zone = names, zone
				return &one, nil
			})
		},
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if (len(args) == 0) == (zone == "") {
			return cli.UsageError(errors.New("gantry simulate drain wants nodes as node/NAME, or a zone as zone/NAME"))
		}
		return nil
	}
	s.flags(c)
	c.Flags().StringVar(&zone, "zone", "", "all nodes of this zone ("+corev1.LabelTopologyZone+")")
	c.Flags().BoolVar(&d.Force, "force", false, "evict Pods without a controller too, which do not come again")
	c.Flags().BoolVar(&d.DeleteEmptyDir, "delete-emptydir-data", false, "evict Pods with emptyDir volumes too")
	c.Flags().IntVar(&grace, "grace-period", -1, "seconds that Pods get to end; negative: their own")
	return c
}

// nodesOrZone reads node/NAME arguments, or the one zone/NAME into zone.
func nodesOrZone(args []string, zone *string) ([]string, error) {
	var out []string
	for _, a := range args {
		kind, name, slash := strings.Cut(a, "/")
		if !slash {
			kind, name = "node", a
		}
		switch kind = strings.ToLower(kind); {
		case kind == "zone" && name != "" && len(args) == 1:
			*zone = name
		case kind == "zone" && name != "":
			return nil, cli.UsageError(fmt.Errorf("%q: a zone stands alone, without nodes or another zone", a))
		case kind != "node" && kind != "nodes" && kind != "no", name == "":
			return nil, cli.UsageError(fmt.Errorf("%q is not a node: write node/NAME, or zone/NAME", a))
		default:
			out = append(out, name)
		}
	}
	return out, nil
}
