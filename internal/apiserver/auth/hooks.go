package auth

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/klog/v2"

	own "github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/apiserver/auth/bootstrappolicy"
)

// addPostStartHooks adds the hooks that start the goroutines and reconcile the bootstrap roles. A
// hook that returns an error ends the server, so they retry until the server ends.
func (s *authBuilder) addPostStartHooks(out *own.Access) {
	s.runners = append(s.runners, s.nodeGraph.Run, s.nodeGraph.RunSlices)
	out.Hooks["gantry/auth"] = func(c genericapiserver.PostStartHookContext) error {
		for _, run := range s.runners {
			go run(c.Context)
		}
		_ = wait.PollUntilContextCancel(c.Context, 5*time.Millisecond, true,
			func(context.Context) (bool, error) { return s.nodeGraph.Synced(), nil })
		return nil
	}
	out.Hooks["rbac/bootstrap-roles"] = func(c genericapiserver.PostStartHookContext) error {
		s.ensureBootstrapPolicy(c.Context)
		return nil
	}
}

// informerSyncTimeout bounds the wait until informers have what was just written.
const informerSyncTimeout = 5 * time.Second

// ensureBootstrapPolicy reconciles the bootstrap roles and bindings and waits until the RBAC
// authorizer's listers have them. It returns when that is done or ctx ends.
func (s *authBuilder) ensureBootstrapPolicy(ctx context.Context) {
	log := klog.FromContext(ctx)
	pause := wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Steps: 6, Cap: time.Second}
	for {
		err := bootstrappolicy.Reconcile(ctx, s.deps.Client, s.roles)
		if err == nil || ctx.Err() != nil {
			break
		}
		log.V(2).Info("Bootstrap roles are not all there yet; trying again", "err", err)
		select {
		case <-time.After(pause.Step()):
		case <-ctx.Done():
		}
	}
	r := s.deps.Informers.Rbac().V1()
	ctx, cancel := context.WithTimeout(ctx, informerSyncTimeout) // a role may be deleted again meanwhile
	defer cancel()
	_ = wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, func(context.Context) (bool, error) {
		for _, role := range s.roles.ClusterRoles {
			if _, err := r.ClusterRoles().Lister().Get(role.Name); err != nil {
				return false, nil
			}
		}
		for _, b := range s.roles.ClusterRoleBindings {
			if _, err := r.ClusterRoleBindings().Lister().Get(b.Name); err != nil {
				return false, nil
			}
		}
		return r.Roles().Informer().HasSynced() && r.RoleBindings().Informer().HasSynced(), nil
	})
}
