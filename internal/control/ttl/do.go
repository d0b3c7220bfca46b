// Package ttl tells kubelets by an annotation how long they may keep Secrets and ConfigMaps that
// they do not watch.
//
// The more nodes, the longer. Gantry's kubelets watch and do not read it; those of other kinds may.
// In: Nodes. Out: their annotation node.alpha.kubernetes.io/ttl, in seconds.
package ttl

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

type controller struct {
	controllerContext controllerruntime.ControllerContext
	nodes             corelisters.NodeLister
	step              int // of the one worker
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	nodes := d.Informers.Core().V1().Nodes()
	c := &controller{controllerContext: d, nodes: nodes.Lister()}
	q := controllerruntime.NewQueue("ttl", 1, c.syncNode)
	q.WatchByKey(nodes.Informer())
	return q
}

func (c *controller) syncNode(ctx context.Context, name string) (time.Duration, error) {
	node, err := c.nodes.Get(name)
	if err != nil {
		return 0, controllerruntime.IgnoreNotFound(err)
	}
	all, err := c.nodes.List(labels.Everything())
	if err != nil {
		return 0, err
	}
	c.step = Step(c.step, len(all))
	want := strconv.Itoa(Seconds(c.step))
	if has, is := node.Annotations[corev1.ObjectTTLAnnotationKey]; is && has == want {
		return 0, nil
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, corev1.ObjectTTLAnnotationKey, want)
	_, err = c.controllerContext.Client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{})
	return 0, controllerruntime.IgnoreNotFound(err)
}
