// Package nodeipam allocates a CIDR of the cluster's Pod range to every Node.
//
// In: Nodes, the cluster CIDRs (--cluster-cidr). Out: spec.podCIDR and spec.podCIDRs, once per
// Node; the event CIDRNotAvailable if none is free. Nodes' CIDRs are read before anything is
// allocated, so that a restart allocates nothing twice.
package nodeipam

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

// retry is when a Node without CIDR is tried again; a released CIDR triggers that at once.
const retry = time.Minute

type controller struct {
	controllerContext controllerruntime.ControllerContext
	nodes             corelisters.NodeLister
	queue             *controllerruntime.Queue
	// Fields below are used by the only worker.
	allocator   *Allocator
	initialized bool            // Nodes' CIDRs have been read
	pending     map[string]bool // Nodes without CIDR
	metrics     metricsRecorder
}

// New returns the controller. Without cluster CIDRs it does nothing.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	if d.NodeRanges.Cluster == "" {
		return disabled{}
	}
	var reserved []netip.Prefix
	for _, s := range d.NodeRanges.Services {
		reserved = append(reserved, Parse([]string{s})...)
	}
	allocator, err := NewAllocator(d.NodeRanges.Cluster, MaskSizes{d.NodeRanges.MaskIPv4, d.NodeRanges.MaskIPv6},
		reserved...)
	if err != nil {
		klog.Background().Error(err, "Nodes get no Pod ranges")
		return disabled{}
	}
	nodes := d.Informers.Core().V1().Nodes()
	c := &controller{controllerContext: d, nodes: nodes.Lister(), allocator: allocator, pending: map[string]bool{}}
	c.metrics.recordMetrics(allocator)
	c.queue = controllerruntime.NewQueue("nodecidr", 1, c.syncNode)
	c.queue.WatchByKey(nodes.Informer())
	return c.queue
}

type disabled struct{}

// Run waits for ctx.
func (disabled) Run(ctx context.Context) { <-ctx.Done() }

func (c *controller) syncNode(ctx context.Context, name string) (time.Duration, error) {
	defer c.metrics.recordMetrics(c.allocator)
	if !c.initialized {
		all, err := c.nodes.List(labels.Everything())
		if err != nil {
			return 0, err
		}
		for _, n := range all {
			if len(n.Spec.PodCIDRs) > 0 {
				c.allocator.Occupy(n.Name, Parse(n.Spec.PodCIDRs))
			}
		}
		c.initialized = true
	}
	n, err := c.nodes.Get(name)
	if apierrors.IsNotFound(err) {
		c.releaseCIDR(name)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if len(n.Spec.PodCIDRs) > 0 {
		c.allocator.Occupy(name, Parse(n.Spec.PodCIDRs))
		delete(c.pending, name)
		return 0, nil
	}
	if n.DeletionTimestamp != nil {
		return 0, nil
	}
	return c.allocateCIDR(ctx, n)
}

// releaseCIDR releases a Node's CIDRs and syncs Nodes that wait for one.
func (c *controller) releaseCIDR(name string) {
	c.allocator.Release(name)
	delete(c.pending, name)
	for waiting := range c.pending {
		c.queue.Add(waiting)
	}
}

func (c *controller) allocateCIDR(ctx context.Context, n *corev1.Node) (time.Duration, error) {
	ranges, err := c.allocator.Allocate(n.Name)
	if full := (*Exhausted)(nil); errors.As(err, &full) {
		klog.FromContext(ctx).Info("No Pod range is free", "node", n.Name, "err", err)
		c.recordEvent(n, "CIDRNotAvailable")
		c.pending[n.Name] = true
		return retry, nil
	}
	var texts []string
	for _, p := range ranges {
		texts = append(texts, p.String())
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": n.UID},
		"spec":     map[string]any{"podCIDR": texts[0], "podCIDRs": texts},
	})
	if err != nil {
		return 0, err
	}
	_, err = c.controllerContext.Client.CoreV1().Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType, body,
		metav1.PatchOptions{})
	switch {
	case err == nil:
		delete(c.pending, n.Name)
		return 0, nil
	case apierrors.IsNotFound(err):
		c.allocator.Release(n.Name)
		return 0, nil
	case apierrors.IsConflict(err) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err):
		// Another Node has the name now, or this one got a CIDR: the next event counts. After a
		// lost response the allocation is kept.
		c.allocator.Release(n.Name)
		c.recordEvent(n, "CIDRAssignmentFailed")
	}
	return 0, fmt.Errorf("give node %s the Pod range %v: %w", n.Name, texts, err)
}

// recordEvent records upstream's event on a Node.
func (c *controller) recordEvent(n *corev1.Node, what string) {
	c.controllerContext.Recorder.Eventf(n, corev1.EventTypeNormal, what, "Node %s status is now: %s", n.Name, what)
}
