package simulate

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/simulate/scenario"
)

func newRollout(streams cli.IO) *cobra.Command {
	s := &simulation{Inspector: cli.Inspector{Out: streams.Out}}
	surge, unavailable, images := "", "", []string(nil)
	c := &cobra.Command{
		Use:   "rollout KIND/NAME",
		Short: "Say how a rollout goes: every Pod's life, the capacity at each moment, when it is done",
		Long: "rollout gives a deployment, statefulset or daemonset a new Pod template in the copy and follows it " +
			"until `kubectl rollout status` would say that it is done. Without --image the Pods stay the same and " +
			"are made again.",
		Example: "  gantry simulate rollout deployment/web\n  gantry simulate rollout deployment/web --max-surge 0 " +
			"--max-unavailable 25% --ready-after 30s\n  gantry simulate rollout statefulset/db -n prod -o svg",
		Args: cli.ExactlyOne("what to roll out, as deployment/NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			o := scenario.Rollout{}
			var err error
			if o.MaxSurge, err = bound("max-surge", surge); err != nil {
				return err
			}
			if o.MaxUnavailable, err = bound("max-unavailable", unavailable); err != nil {
				return err
			}
			if o.Images, err = imagesOf(images); err != nil {
				return err
			}
			return s.run(c.Context(), func() (scenario.Change, error) {
				one := o
				one.Object, err = scenario.ParseObject(args[0], s.Namespace)
				return &one, err
			})
		},
	}
	s.flags(c)
	c.Flags().StringVar(&surge, "max-surge", "", "Pods beyond the wanted number, as 1 or 25% (default: the object's)")
	c.Flags().StringVar(&unavailable, "max-unavailable", "",
		"Pods below the wanted number, as 1 or 25% (default: the object's)")
	c.Flags().StringArrayVar(&images, "image", nil, "new image as CONTAINER=IMAGE; may be given again")
	return c
}

// bound reads 1 or 25%.
func bound(name, s string) (*intstr.IntOrString, error) {
	if s == "" {
		return nil, nil
	}
	if _, err := strconv.ParseInt(strings.TrimSuffix(s, "%"), 10, 32); err != nil {
		return nil, cli.UsageError(fmt.Errorf("--%s %q: must be a number up to %d or a percentage such as 25%%",
			name, s, math.MaxInt32))
	}
	v := intstr.Parse(s)
	return &v, nil
}

// imagesOf reads CONTAINER=IMAGE.
func imagesOf(list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, s := range list {
		name, image, ok := strings.Cut(s, "=")
		if !ok || name == "" || image == "" {
			return nil, cli.UsageError(fmt.Errorf("%q: write CONTAINER=IMAGE", s))
		}
		out[name] = image
	}
	return out, nil
}
