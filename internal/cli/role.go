package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/gcpacer"
)

// Role is a component that runs against an API server it reaches by kubeconfig.
type Role struct {
	Kubeconfig string
	Without    func(context.Context) error // what it does without an API server; nil: nothing
	log        Logging
}

// Command is c with the flags of a role, which runs against the API server of its kubeconfig until
// its context ends.
func (r *Role) Command(c *cobra.Command, run func(ctx context.Context, cfg *rest.Config) error) *cobra.Command {
	c.Args = cobra.NoArgs
	f := c.Flags()
	f.StringVar(&r.Kubeconfig, "kubeconfig", "", "kubeconfig of the API server (required)")
	r.log.Flags(f)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if r.Kubeconfig == "" && r.Without != nil {
			r.log.toStderr = true
			if _, err := r.log.Open(""); err != nil {
				return err
			}
			gcpacer.Run(c.Context())
			return r.Without(c.Context())
		}
		if r.Kubeconfig == "" {
			return UsageError(fmt.Errorf("%s wants --kubeconfig; see %q", c.CommandPath(), c.CommandPath()+" --help"))
		}
		r.log.toStderr = true
		if _, err := r.log.Open(""); err != nil {
			return err
		}
		cfg, _, err := RestConfig(r.Kubeconfig)
		if err != nil {
			return err
		}
		gcpacer.Run(c.Context())
		return run(c.Context(), cfg)
	}
	return c
}
