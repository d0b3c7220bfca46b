package podactions

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelettypes "k8s.io/kubelet/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/userns"
)

// UserNamespaces gives Pods ids of the host; userns/allocations does.
type UserNamespaces interface {
	GetOrCreate(ctx context.Context, uid types.UID) (userns.Range, error)
}

// userNamespace is the user namespace of the Pod as CRI takes it: nil leaves it to the runtime,
// which takes the host's.
func (c *operation) userNamespace(ctx context.Context) (*runtimeapi.UserNamespace, error) {
	if c.pod.Spec.HostUsers == nil {
		return nil, nil
	}
	if !userns.Requested(c.pod) {
		return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_NODE}, nil
	}
	if c.state.userNamespace != nil {
		return c.state.userNamespace, nil
	}
	if err := userns.Check(c.pod); err != nil {
		return nil, err
	}
	handler, err := c.executor.d.Cluster.RuntimeHandler(ctx, deref(c.pod.Spec.RuntimeClassName))
	if err != nil {
		return nil, err
	}
	can, err := c.features(ctx, handler)
	if err != nil {
		return nil, err
	}
	if !can.GetUserNamespaces() {
		return nil, fmt.Errorf("RuntimeClass handler %q does not support user namespaces", handler)
	}
	r, err := c.executor.d.UserNamespaces.GetOrCreate(ctx, c.pod.UID)
	if err != nil {
		return nil, err
	}
	ids := func() []*runtimeapi.IDMapping {
		return []*runtimeapi.IDMapping{{HostId: r.First, ContainerId: 0, Length: r.Length}}
	}
	c.state.userNamespace = &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: ids(), Gids: ids()}
	return c.state.userNamespace, nil
}

// features are what the runtime says a handler can do. It is asked anew each time, which only Pods
// that need a feature cost.
func (c *operation) features(ctx context.Context, handler string) (*runtimeapi.RuntimeHandlerFeatures, error) {
	s, err := c.executor.d.Runtime.Status(ctx, false)
	if err != nil {
		return nil, err
	}
	if len(s.GetRuntimeHandlers()) == 0 {
		return nil, errors.New("runtime handlers are not set")
	}
	for _, h := range s.GetRuntimeHandlers() {
		if h.GetName() == handler {
			return h.GetFeatures(), nil
		}
	}
	return nil, fmt.Errorf("the handler %q is not known", handler)
}

// idmapped asks the runtime to show the mounts' owners as the Pod's users see them: a file that
// belongs to root on the host belongs to root inside.
func idmapped(mounts []*runtimeapi.Mount, u *runtimeapi.UserNamespace) {
	if u == nil || u.Mode != runtimeapi.NamespaceMode_POD {
		return
	}
	for _, m := range mounts {
		m.UidMappings, m.GidMappings = u.Uids, u.Gids
	}
}

// SandboxUserNamespace asks the runtime which ids a Pod's sandbox has; false when it has no sandbox
// with users of its own.
func SandboxUserNamespace(
	runtime internalapi.RuntimeService) func(context.Context, types.UID) (userns.Range, bool, error) {
	return func(ctx context.Context, uid types.UID) (userns.Range, bool, error) {
		sandboxes, err := runtime.ListPodSandbox(ctx,
			&runtimeapi.PodSandboxFilter{
				LabelSelector: map[string]string{kubelettypes.KubernetesPodUIDLabel: string(uid)}})
		if err != nil {
			return userns.Range{}, false, err
		}
		for _, b := range sandboxes {
			s, err := runtime.PodSandboxStatus(ctx, b.Id, false)
			if err != nil {
				return userns.Range{}, false, err
			}
			for _, m := range s.GetStatus().GetLinux().GetNamespaces().GetOptions().GetUsernsOptions().GetUids() {
				return userns.Range{First: m.HostId, Length: m.Length}, true, nil
			}
		}
		return userns.Range{}, false, nil
	}
}
