package allocations

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"os/user"

	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/userns"
)

// subIDUser is the user whose subordinate ids the node gives to its Pods.
const subIDUser = "kubelet"

// Pool reads which ids this node gives to Pods: those subordinate to the user "kubelet", or the
// default ones when there is no such user or no getsubids in PATH.
func Pool(ctx context.Context, w userns.Config) (userns.Pool, error) {
	return poolOf(ctx, w, func(name string) error { _, err := user.Lookup(name); return err })
}

func poolOf(ctx context.Context, w userns.Config, lookup func(name string) error) (userns.Pool, error) {
	err := lookup(subIDUser)
	if unknown := user.UnknownUserError(""); errors.As(err, &unknown) {
		return userns.Default(w)
	}
	if err != nil {
		return userns.Pool{}, fmt.Errorf("looking up user %q: %w", subIDUser, err)
	}
	bin, err := exec.LookPath("getsubids")
	if err != nil {
		klog.FromContext(ctx).Info("No getsubids in PATH, user namespaces take the default ids", "user", subIDUser)
		return userns.Default(w)
	}
	uids, err := exec.CommandContext(ctx, bin, subIDUser).Output()
	if err != nil {
		return userns.Pool{}, fmt.Errorf("error retrieving additional ids for user %q: %w", subIDUser, err)
	}
	gids, err := exec.CommandContext(ctx, bin, "-g", subIDUser).Output()
	if err != nil {
		return userns.Pool{}, fmt.Errorf("error retrieving additional gids for user %q: %w", subIDUser, err)
	}
	return userns.Subordinate(w, string(uids), string(gids))
}
