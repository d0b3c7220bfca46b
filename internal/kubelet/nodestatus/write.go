package nodestatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	nodeutil "k8s.io/component-helpers/node/util"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/node"
)

// register makes the Node object, or reconciles the one that is there; it tries until it succeeds
// or ctx ends.
func (r *Reporter) register(ctx context.Context) {
	if !r.opts.Register {
		return
	}
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 7*time.Second) {
		r.checkRuntime(ctx)
		err := r.tryRegister(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		klog.FromContext(ctx).Error(err, "Unable to register node with API server", "node", r.opts.Identity.Name)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

func (r *Reporter) tryRegister(ctx context.Context) error {
	nodes := r.opts.Client.CoreV1().Nodes()
	facts, err := r.facts(ctx)
	if err != nil {
		return err
	}
	n := newNode(r.opts)
	n.Status = Apply(v1.NodeStatus{}, facts)
	if r.attempt.IsZero() {
		r.attempt = time.Now()
	}
	written, err := nodes.Create(ctx, n, metav1.CreateOptions{})
	if err == nil {
		klog.FromContext(ctx).Info("Successfully registered node", "node", n.Name)
		r.registered = time.Now()
		r.recordWrite(v1.NodeStatus{}, written)
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("register node %s: %w", n.Name, err)
	}
	found, err := nodes.Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("node %s was registered before: %w", n.Name, err)
	}
	if found.DeletionTimestamp != nil {
		return fmt.Errorf("node %s is being deleted; waiting for its end", n.Name)
	}
	klog.FromContext(ctx).Info("Node was previously registered", "node", n.Name)
	want := reconcile(found, r.opts)
	if equal(want, found) {
		r.node.Store(found)
		return nil
	}
	patch, err := twoWayPatch(found, want)
	if err != nil {
		return err
	}
	found, err = nodes.Patch(ctx, n.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("reconcile node %s: %w", n.Name, err)
	}
	r.node.Store(found)
	return nil
}

func twoWayPatch(from, to *v1.Node) ([]byte, error) {
	a, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(to)
	if err != nil {
		return nil, err
	}
	return strategicpatch.CreateTwoWayMergePatch(a, b, v1.Node{})
}

// update writes the status when it changed or was not written for long. It reads the node first:
// others write parts of its status too.
func (r *Reporter) update(ctx context.Context) error {
	const tries = 5
	var errs []error
	for try := range tries {
		err := r.tryUpdate(ctx, try == 0)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		errs = append(errs, err)
		if apierrors.IsNotFound(err) {
			break
		}
	}
	return fmt.Errorf("status of node %s: %w", r.opts.Identity.Name, errors.Join(errs...))
}

func (r *Reporter) tryUpdate(ctx context.Context, fromCache bool) error {
	var opts metav1.GetOptions
	if fromCache {
		opts.ResourceVersion = "0"
	}
	old, err := r.opts.Client.CoreV1().Nodes().Get(ctx, r.opts.Identity.Name, opts)
	if err != nil {
		return err
	}
	if last := r.node.Load(); fromCache && last != nil && last.UID == old.UID && older(old, last) {
		old = last
	}
	facts, err := r.facts(ctx)
	if err != nil {
		return err
	}
	r.reportCordon(old)
	node := old.DeepCopy()
	node.Status = Apply(old.Status, facts)
	if r.lastPosted.IsZero() || changed(old.Status, node.Status) ||
		facts.Now.Sub(r.lastPosted) >= r.opts.Timing.ReportEvery {
		written, _, err := nodeutil.PatchNodeStatus(r.opts.Client.CoreV1(), types.NodeName(node.Name), old, node)
		if err != nil {
			return err
		}
		r.recordWrite(old.Status, written)
		return nil
	}
	r.node.Store(old)
	return nil
}

// older compares resource versions; what cannot be compared is not older.
func older(a, b *v1.Node) bool {
	return len(a.ResourceVersion) < len(b.ResourceVersion) || len(a.ResourceVersion) == len(b.ResourceVersion) &&
		a.ResourceVersion < b.ResourceVersion
}

// recordWrite keeps what the server answered and tells of it.
func (r *Reporter) recordWrite(before v1.NodeStatus, after *v1.Node) {
	r.lastPosted = time.Now()
	r.node.Store(after)
	r.reportChanges(before, after.Status)
	if node.IsReady(after) && !r.wasReady() {
		close(r.ready)
		if r.opts.Started != nil && !r.registered.IsZero() {
			r.opts.Started(r.attempt, r.registered, time.Now())
		}
	}
}

// LocalNode is this node as it would be registered now, for as long as the API cannot be asked.
// What cannot be read is left out.
func (r *Reporter) LocalNode(ctx context.Context) *v1.Node {
	n := newNode(r.opts)
	o := r.opts
	f := Facts{
		Now: time.Now(), Machine: o.Machine, MaxPods: o.MaxPods, KubeletPort: o.KubeletPort,
		KubeletVersion: o.KubeletVersion,
		Resources:      Resources{Allocatable: o.Sources.Allocatable},
	}
	if list, err := r.addresses(ctx); err == nil {
		f.Addresses = list
	}
	n.Status = Apply(v1.NodeStatus{}, f)
	return n
}
