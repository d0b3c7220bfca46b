package noderole

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/containerd/registrytags"
	"github.com/gantry-project/gantry/internal/cri/pullprogress"
	"github.com/gantry-project/gantry/internal/linux/cgroup"
	"github.com/gantry-project/gantry/internal/linux/proc"
)

// nodeInspector looks at Pods on this machine for those who ask why.
type nodeInspector struct {
	*cgroup.Tree
	*pullprogress.Store
	registries string // containerd's directory of registry hosts; empty with somebody else's runtime
}

// Listening takes the network of the first process there is: all containers of a Pod share it.
func (s nodeInspector) Listening(path string) ([]string, error) {
	pids, err := s.Processes(path)
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		if found, err := proc.Listening("/", pid); err == nil {
			return found, nil
		}
	}
	return nil, nil
}

// Tags asks as containerd asks: with its mirrors and certificates.
func (s nodeInspector) Tags(ctx context.Context, image string, auth *runtimeapi.AuthConfig) ([]string, error) {
	return registrytags.List(ctx, registrytags.Request{Dir: s.registries, Image: image, User: auth.GetUsername(),
		Password: auth.GetPassword()})
}
