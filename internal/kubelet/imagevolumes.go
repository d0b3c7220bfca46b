package kubelet

import (
	"context"
	"strings"

	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crierrors "k8s.io/cri-api/pkg/errors"

	"github.com/gantry-project/gantry/internal/kubelet/metrics"
)

// countedRuntime counts the image volumes of containers that it has made.
type countedRuntime struct {
	internalapi.RuntimeService
	metrics *metrics.Metrics
}

// CreateContainer makes a container; a runtime says in its error that an image could not be
// mounted.
func (r countedRuntime) CreateContainer(ctx context.Context, sandbox string, c *runtimeapi.ContainerConfig,
	s *runtimeapi.PodSandboxConfig) (string, error) {
	id, err := r.RuntimeService.CreateContainer(ctx, sandbox, c, s)
	volumes, mounts := map[*runtimeapi.ImageSpec]bool{}, 0
	for _, m := range c.GetMounts() {
		if m.Image != nil {
			volumes[m.Image] = true // one specification for a volume, whose mounts share it
			mounts++
		}
	}
	if failed := err != nil && strings.HasPrefix(status.Convert(err).Message(),
		crierrors.ErrImageVolumeMountFailed.Error()); failed {
		r.metrics.ImageVolumes(len(volumes), 0, mounts)
	} else {
		r.metrics.ImageVolumes(len(volumes), mounts, 0)
	}
	return id, err
}
