package simulate

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/control/nodelifecycle"
	"github.com/gantry-project/gantry/internal/simulate/scenario"
	"github.com/gantry-project/gantry/internal/simulate/source"
)

func newScale(streams cli.IO) *cobra.Command {
	s := &simulation{Inspector: cli.Inspector{Out: streams.Out}}
	replicas := int32(-1)
	c := &cobra.Command{
		Use:     "scale KIND/NAME --replicas N",
		Short:   "Say what another number of Pods brings: where new ones go, which go away, what stays pending",
		Example: "  gantry simulate scale deployment/web --replicas 20",
		Args:    cli.ExactlyOne("what to scale, as deployment/NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("replicas") {
				return cli.UsageError(errors.New("gantry simulate scale wants --replicas"))
			}
			return s.run(c.Context(), func() (scenario.Change, error) {
				o, err := scenario.ParseObject(args[0], s.Namespace)
				return &scenario.Scale{Object: o, Replicas: replicas}, err
			})
		},
	}
	s.flags(c)
	c.Flags().Int32Var(&replicas, "replicas", -1, "how many Pods (required)")
	return c
}

func newDelete(streams cli.IO) *cobra.Command {
	s := &simulation{Inspector: cli.Inspector{Out: streams.Out}}
	c := &cobra.Command{
		Use:     "delete KIND/NAME",
		Short:   "Say what deleting a workload brings: how long its Pods take to go, and who gets their room",
		Example: "  gantry simulate delete deployment/web",
		Args:    cli.ExactlyOne("what to delete, as deployment/NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			return s.run(c.Context(), func() (scenario.Change, error) {
				o, err := scenario.ParseObject(args[0], s.Namespace)
				return &scenario.Delete{Object: o}, err
			})
		},
	}
	s.flags(c)
	return c
}

func newSet(streams cli.IO) *cobra.Command {
	c := &cobra.Command{
		Use:     "set",
		Short:   "Say what `kubectl set` brings",
		Example: "  gantry simulate set image deployment/web app=registry.example/app:2",
	}
	c.AddCommand(newSetImage(streams))
	return c
}

func newSetImage(streams cli.IO) *cobra.Command {
	s := &simulation{Inspector: cli.Inspector{Out: streams.Out}}
	c := &cobra.Command{
		Use:     "image KIND/NAME CONTAINER=IMAGE ...",
		Short:   "Say how the rollout goes that `kubectl set image` begins",
		Example: "  gantry simulate set image deployment/web app=registry.example/app:2",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) < 2 {
				return cli.UsageError(errors.New("gantry simulate set image wants deployment/NAME and CONTAINER=IMAGE"))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			images, err := imagesOf(args[1:])
			if err != nil {
				return err
			}
			return s.run(c.Context(), func() (scenario.Change, error) {
				o, err := scenario.ParseObject(args[0], s.Namespace)
				return &scenario.Image{Rollout: scenario.Rollout{Object: o, Images: images}}, err
			})
		},
	}
	s.flags(c)
	return c
}

func newLose(streams cli.IO) *cobra.Command {
	s := &simulation{Inspector: cli.Inspector{Out: streams.Out}}
	var l scenario.Lose
	c := &cobra.Command{
		Use:   "lose [node/NAME ... | zone/NAME]",
		Short: "Say what the loss of nodes or of a zone brings: when it is noticed, what is evicted, where it goes",
		Long: "lose has the nodes report nothing any more from now on. What happens then is the node lifecycle " +
			"controller's and the taint eviction's doing.",
		Example: "  gantry simulate lose node/node-1\n  gantry simulate lose node/node-1 --out-of-service\n" +
			"  gantry simulate lose zone/eu-1 -o json",
		RunE: func(c *cobra.Command, args []string) error {
			names, err := nodesOrZone(args, &l.Zone)
			if err != nil {
				return err
			}
			return s.run(c.Context(), func() (scenario.Change, error) {
				lost := l
				lost.Nodes = names
				return &lost, nil
			})
		},
	}
	c.Args = func(_ *cobra.Command, args []string) error {
		switch {
		case (len(args) == 0) == (l.Zone == ""):
			return cli.UsageError(errors.New("gantry simulate lose wants nodes as node/NAME, or a zone as zone/NAME"))
		case l.NodeMonitorGracePeriod <= 0:
			return cli.UsageError(fmt.Errorf("--node-monitor-grace-period %s: must be greater than 0",
				l.NodeMonitorGracePeriod))
		}
		return nil
	}
	s.flags(c)
	c.Flags().StringVar(&l.Zone, "zone", "", "all nodes of this zone")
	c.Flags().DurationVar(&l.NodeMonitorGracePeriod, "node-monitor-grace-period", nodelifecycle.MonitorGracePeriod,
		"how long the cluster's controllers wait for a report of a node, as their flag says")
	c.Flags().BoolVar(&l.OutOfService, "out-of-service", false, "as soon as the loss is noticed, say that the nodes "+
		"are off ("+corev1.TaintNodeOutOfService+"): their Pods are deleted and their volumes detached")
	return c
}

func newApply(streams cli.IO) *cobra.Command {
	s := &simulation{Inspector: cli.Inspector{Out: streams.Out}}
	var files []string
	c := &cobra.Command{
		Use:     "apply -f FILE",
		Short:   "Say what manifests bring: what is made and changed, where Pods go, what is never ready and why",
		Example: "  gantry simulate apply -f new.yaml\n  gantry simulate apply -f new.yaml --from cluster.json -o json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(files) == 0 {
				return cli.UsageError(errors.New("gantry simulate apply wants manifests with -f"))
			}
			given, err := source.Given(files, c.InOrStdin())
			if err != nil {
				return err
			}
			if note := given.Note(); note != "" {
				return fmt.Errorf("kinds that a copy has not cannot be applied: %s", note)
			}
			return s.run(c.Context(), func() (scenario.Change, error) {
				return &scenario.Apply{Objects: given.Objects, Namespace: s.Namespace, Files: files}, nil
			})
		},
	}
	s.flags(c)
	c.Flags().StringArrayVarP(&files, "filename", "f", nil,
		"file or directory with manifests, - for standard input; may be given again")
	return c
}
