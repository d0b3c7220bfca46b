package kubelet

import (
	"context"
	"errors"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/kubelet/dra/manager"
)

// newClaimManager makes the manager of resource claims.
func (k *Kubelet) newClaimManager() (*manager.Manager, error) {
	d := manager.Deps{Dir: k.opts.RootDir,
		Active:        func(uid types.UID) bool { return k.podWorkers.IsActive(uid) },
		HealthChanged: func(uid types.UID) { k.podWorkers.Wake(uid) }}
	if k.opts.Dependencies.Sockets != nil {
		d.Dial = k.opts.Dependencies.Sockets.Dial
	}
	if !k.opts.StaticPods.Standalone {
		d.API = claimAPI{k.opts.Client, k.node}
	}
	return manager.New(d)
}

// claimAPI is what the manager of claims reads and writes of the cluster.
type claimAPI struct {
	client kubernetes.Interface
	node   *node
}

// GetClaim reads a ResourceClaim.
func (a claimAPI) GetClaim(ctx context.Context, namespace, name string) (*resourceapi.ResourceClaim, error) {
	return a.client.ResourceV1().ResourceClaims(namespace).Get(ctx, name, metav1.GetOptions{})
}

var errNoNode = errors.New("the node is not registered yet")

// DeleteSlices deletes this node's ResourceSlices.
func (a claimAPI) DeleteSlices(ctx context.Context, driver string) error {
	n := a.node.get()
	if n == nil {
		return errNoNode
	}
	which := fields.Set{resourceapi.ResourceSliceSelectorNodeName: n.Name}
	if driver != "" {
		which[resourceapi.ResourceSliceSelectorDriver] = driver
	}
	return a.client.ResourceV1().ResourceSlices().DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{FieldSelector: which.String()})
}
