// Package nodeipam gives every Node its own part of the cluster's Pod range.
//
// In: Nodes, the cluster's ranges (--cluster-cidr). Out: spec.podCIDR and spec.podCIDRs, once per
// Node; the event CIDRNotAvailable when no part is free. What Nodes have is read before anything is
// given, so a restart gives nothing twice.
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

// retry is when a Node that got no range is looked at again; a part that is given back asks at
// once.
const retry = time.Minute

type controller struct {
	controllerContext controllerruntime.ControllerContext
	nodes             corelisters.NodeLister
	queue             *controllerruntime.Queue
	// Of the one worker only.
	allocator   *Allocator
	initialized bool            // what Nodes have is in the book
	pending     map[string]bool // Nodes that got none
}

// New makes the controller. Without ranges it does nothing.
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
	c.queue = controllerruntime.NewQueue("nodecidr", 1, c.syncNode)
	c.queue.WatchByKey(nodes.Informer())
	return c.queue
}

type disabled struct{}

// Run waits.
func (disabled) Run(ctx context.Context) { <-ctx.Done() }

func (c *controller) syncNode(ctx context.Context, name string) (time.Duration, error) {
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

// releaseCIDR gives a Node's parts to those that wait for some.
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
		// Another Node of that name, or one that has got a range meanwhile: what the watch tells
		// next counts. A lost answer keeps the grant.
		c.allocator.Release(n.Name)
		c.recordEvent(n, "CIDRAssignmentFailed")
	}
	return 0, fmt.Errorf("give node %s the Pod range %v: %w", n.Name, texts, err)
}

// recordEvent tells of a Node with upstream's text.
func (c *controller) recordEvent(n *corev1.Node, what string) {
	c.controllerContext.Recorder.Eventf(n, corev1.EventTypeNormal, what, "Node %s status is now: %s", n.Name, what)
}
