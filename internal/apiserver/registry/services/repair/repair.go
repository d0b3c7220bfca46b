// Package repair compares the cluster IPs and node ports that Services hold with what is written
// down about them, and puts right what differs (upstream: the repair controllers of ipallocator and
// portallocator, and the ServiceCIDR controller).
//
// In: a client, the allocator, the map of node ports. Out: IPAddresses, the map, events, conditions
// and finalizers of ServiceCIDRs. The decisions are functions of registry/services (RepairIPs,
// RepairNodePorts, SyncServiceCIDR).
package repair

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/apiserver/registry/services"
)

// period is how often Services and their IPAddresses are compared, upstream's figure.
const period = 3 * time.Minute

// NodePorts is the map of all node ports that are held (portallocator.Storage).
type NodePorts interface {
	// Load returns the map and the revision it has in the store.
	Load(ctx context.Context) (*services.PortMap, int64, error)
	// List returns all Services as they are stored at this moment.
	List(ctx context.Context) ([]corev1.Service, error)
	// Update applies f to the map as it is stored at that moment.
	Update(ctx context.Context, f func(*services.PortMap) error) error
}

// Repairer compares what Services hold with what is written down: IPAddress objects, the map of
// node ports, the conditions and finalizers of ServiceCIDRs. One goroutine, Run, uses it.
type Repairer struct {
	Client    kubernetes.Interface
	Allocator *services.Allocator
	NodePorts NodePorts
	// Changed receives when a ServiceCIDR changed.
	Changed <-chan struct{}

	ipRecorder, nodePortRecorder record.EventRecorder
	leaked                       map[int]time.Time // node ports that nobody holds
}

// Run compares at once, when Changed receives and every three minutes, until ctx ends. What fails
// is logged and tried again after a second.
func (r *Repairer) Run(ctx context.Context) {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: r.Client.CoreV1().Events("")})
	recorder := func(name string) record.EventRecorder {
		return broadcaster.NewRecorder(clientscheme.Scheme, corev1.EventSource{Component: name})
	}
	r.ipRecorder, r.nodePortRecorder = recorder("ipallocator-repair-controller"),
		recorder("portallocator-repair-controller")
	tick := time.NewTicker(period)
	defer tick.Stop()
	again := time.NewTimer(0) // while a ServiceCIDR waits for its last address
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.Changed:
		case <-again.C:
		}
		waits, err := r.runOnce(ctx)
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("The addresses of Services could not be compared; the next try is in a "+
				"second", "err", err)
			waits = true
		}
		if waits {
			again.Reset(time.Second)
		}
	}
}

// runOnce compares once; true when a ServiceCIDR waits for addresses to be given back.
func (r *Repairer) runOnce(ctx context.Context) (bool, error) {
	all, err := r.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("list services: %w", err)
	}
	entries, err := r.Client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("list IP addresses: %w", err)
	}
	cidrs, err := r.Client.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("list service CIDRs: %w", err)
	}
	if err := r.repairIPAddresses(ctx, all.Items, services.ServiceCIDRState{CIDRs: cidrs.Items,
		IPAddresses: entries.Items}); err != nil {
		return false, err
	}
	if err := r.repairNodePorts(ctx, all.Items); err != nil {
		return false, err
	}
	waits := false
	for i := range cidrs.Items {
		blocked, err := r.syncServiceCIDR(ctx, &cidrs.Items[i], services.ServiceCIDRState{CIDRs: cidrs.Items,
			IPAddresses: entries.Items})
		if err != nil {
			return waits, fmt.Errorf("service CIDR %s: %w", cidrs.Items[i].Name, err)
		}
		waits = waits || blocked
	}
	return waits, nil
}

// stillValid says that a finding about a Service is one: it was not deleted or changed between the
// lists.
func (r *Repairer) stillValid(ctx context.Context, about runtime.Object) bool {
	previous, ok := about.(*corev1.Service)
	if !ok {
		return true
	}
	s, err := r.Client.CoreV1().Services(previous.Namespace).Get(ctx, previous.Name, metav1.GetOptions{})
	return err == nil && s.UID == previous.UID && s.ResourceVersion == previous.ResourceVersion &&
		s.DeletionTimestamp == nil
}

func (r *Repairer) recordFindings(ctx context.Context, by record.EventRecorder, all []services.Finding) {
	for _, f := range all {
		if r.stillValid(ctx, f.Object) {
			by.Event(f.Object, corev1.EventTypeWarning, f.Reason, f.Text)
		}
	}
}

func (r *Repairer) repairIPAddresses(ctx context.Context, all []corev1.Service,
	w services.ServiceCIDRState) (err error) {
	found := services.RepairIPs(all, w, time.Now())
	defer func() { services.CountIPRepair(found.Findings, err) }()
	r.recordFindings(ctx, r.ipRecorder, found.Findings)
	client := r.Client.NetworkingV1().IPAddresses()
	for _, e := range found.Delete {
		err := client.Delete(ctx, e.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &e.UID}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("IP address %s: %w", e.Name, err)
		}
		r.Allocator.ReleaseOrphaned(e.Name)
	}
	for _, e := range found.Create {
		if err := r.createIPAddress(ctx, e); err != nil {
			return fmt.Errorf("IP address %s: %w", e.Name, err)
		}
	}
	return nil
}

// createIPAddress writes an address down for the Service that holds it. Services that go meanwhile
// gave their addresses back already: nothing of them may stay.
func (r *Repairer) createIPAddress(ctx context.Context, e *networkingv1.IPAddress) error {
	holds := func() bool {
		s, err := r.Client.CoreV1().Services(e.Spec.ParentRef.Namespace).Get(ctx, e.Spec.ParentRef.Name,
			metav1.GetOptions{})
		return err == nil && slices.Contains(s.Spec.ClusterIPs, e.Name)
	}
	if !holds() {
		return nil
	}
	made, err := r.Client.NetworkingV1().IPAddresses().Create(ctx, e, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil || holds() {
		return err
	}
	err = r.Client.NetworkingV1().IPAddresses().Delete(ctx, e.Name,
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &made.UID}})
	return ignoreConflict(err)
}

// repairNodePorts compares the node ports of Services with the map of all that are held.
func (r *Repairer) repairNodePorts(ctx context.Context, all []corev1.Service) (err error) {
	var found services.PortRepair
	defer func() { services.CountPortRepair(found.Findings, err) }()
	m, _, err := r.NodePorts.Load(ctx)
	if err != nil {
		return err
	}
	found = services.RepairNodePorts(all, m, r.leaked, time.Now())
	r.leaked = found.Leaked
	r.recordFindings(ctx, r.nodePortRecorder, found.Findings)
	if len(found.Allocate)+len(found.Release) == 0 {
		return nil
	}
	now, err := r.NodePorts.List(ctx) // what went meanwhile gave its ports back already
	if err != nil {
		return err
	}
	held := r.Allocator.NewPortMap(now)
	return r.NodePorts.Update(ctx, func(m *services.PortMap) error {
		for _, n := range found.Allocate {
			m.Set(n, m.Has(n) || held.Has(n))
		}
		for _, n := range found.Release {
			m.Set(n, false)
		}
		return nil
	})
}

// syncServiceCIDR says that a range is ready, holds it as long as addresses of it are in use, and
// lets it go then.
func (r *Repairer) syncServiceCIDR(ctx context.Context, c *networkingv1.ServiceCIDR,
	w services.ServiceCIDRState) (blocked bool, err error) {
	next, blocked := services.SyncServiceCIDR(c, w, metav1.Now())
	client := r.Client.NetworkingV1().ServiceCIDRs()
	if next.Status != nil {
		if _, err = client.UpdateStatus(ctx, next.Status, metav1.UpdateOptions{}); ignoreConflict(err) != nil {
			return blocked, err
		}
	}
	if next.Finalizers != nil {
		_, err = client.Update(ctx, next.Finalizers, metav1.UpdateOptions{})
	}
	return blocked, ignoreConflict(err)
}

// ignoreConflict leaves out what the next round sees by itself.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
