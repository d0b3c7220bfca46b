package leaderelection

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentbase "k8s.io/component-base/config"
	"k8s.io/klog/v2"
)

// HealthTimeout is how long a lost lease may go unnoticed before /healthz fails; upstream's.
const HealthTimeout = 20 * time.Second

// ErrLost ends a component that lost its lease (upstream's text).
var ErrLost = errors.New("leaderelection lost")

// Options are what a component elects with.
type Options struct {
	KubeConfig *rest.Config // of the API server with the Lease
	Config     componentbase.LeaderElectionConfiguration
	Name       string                         // of the component, in metrics
	Health     *leaderelection.HealthzAdaptor // is told of the lease; nil: nobody is
}

// Run runs work once this process holds the lease, and returns what work returns, nil when ctx ends
// before that, or ErrLost when the lease is lost. Work's context ends with the lease; a request
// for the Lease ends after half of the time in which it must be renewed, at least a second. Without
// an election work runs at once.
func Run(ctx context.Context, o Options, work func(context.Context) error) error {
	e := o.Config
	if !e.LeaderElect {
		return work(ctx)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	lock, err := resourcelock.NewFromKubeconfig(e.ResourceLock, e.ResourceNamespace, e.ResourceName,
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}, o.KubeConfig,
		e.RenewDeadline.Duration)
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: e.LeaseDuration.Duration, RenewDeadline: e.RenewDeadline.Duration,
		RetryPeriod:     e.RetryPeriod.Duration,
		ReleaseOnCancel: true, Name: o.Name, WatchDog: o.Health,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				done <- work(ctx)
				cancel()
			},
			OnNewLeader:      func(id string) { klog.FromContext(outer).V(1).Info("Leader elected", "identity", id) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	elector.Run(ctx)
	select {
	case err := <-done:
		if err != nil || outer.Err() != nil {
			return err
		}
	case <-outer.Done():
	case <-time.After(e.RenewDeadline.Duration): // work ends with its context, which ended before elector.Run returned
	}
	if outer.Err() == nil {
		return ErrLost
	}
	return nil
}
