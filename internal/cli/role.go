package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/gantry-project/gantry/internal/gcpacer"
)

// Role is a component that runs against an API server it reaches by kubeconfig.
type Role struct {
	Kubeconfig  string
	LeaderElect bool
	Electable   bool                           // has an election of its own
	Without     func(context.Context) error    // what it does without an API server; nil: nothing
	Health      *leaderelection.HealthzAdaptor // is told of the lease; may be nil
	log         Logging
}

// Command is c with the flags of a role, which runs against the API server of its kubeconfig until
// its context ends.
func (r *Role) Command(c *cobra.Command, run func(ctx context.Context, cfg *rest.Config) error) *cobra.Command {
	c.Args = cobra.NoArgs
	f := c.Flags()
	f.StringVar(&r.Kubeconfig, "kubeconfig", "", "kubeconfig of the API server (required)")
	if !r.Electable {
		f.BoolVar(&r.LeaderElect, "leader-elect", true, "work only while holding the lease, so that several may run")
	}
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

// RunElected runs work while this process holds the lease of that name in kube-system; it returns
// when the lease is lost or ctx ends.
func (r *Role) RunElected(ctx context.Context, cfg *rest.Config, name string,
	work func(context.Context) error) error {
	if !r.LeaderElect {
		return work(ctx)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity()}},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ReleaseOnCancel: true, Name: name, WatchDog: r.Health,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { done <- work(ctx); cancel() },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	select {
	case err := <-done:
		return err
	default:
		return nil // never led
	}
}
