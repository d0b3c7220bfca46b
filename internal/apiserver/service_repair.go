package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/apiserver/registry/services"
)

// repairPeriod is how often Services and their IPAddresses are compared, upstream's figure.
const repairPeriod = 3 * time.Minute

// ipAddressStorage keeps what the allocator hands out in the IPAddress objects of this server.
type ipAddressStorage struct{ lookup storageLookup }

func (l ipAddressStorage) store() rest.StandardStorage {
	return l.lookup(networkingv1.GroupName, "ipaddresses")
}

// Allocate implements services.IPAddressStorage.
func (l ipAddressStorage) Allocate(ctx context.Context, a *networkingv1.IPAddress) error {
	_, err := l.store().Create(ctx, a.DeepCopy(), rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	have, err := l.store().Get(ctx, a.Name, &metav1.GetOptions{ResourceVersion: ""})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if e, ok := have.(*networkingv1.IPAddress); ok && err == nil && e.Spec.ParentRef != nil &&
		*e.Spec.ParentRef == *a.Spec.ParentRef {
		return nil // left by an earlier try to store this very Service
	}
	return services.ErrIPAllocated
}

// Release implements services.IPAddressStorage.
func (l ipAddressStorage) Release(ctx context.Context, a *networkingv1.IPAddress) error {
	mine := func(_ context.Context, obj runtime.Object) error {
		if e, ok := obj.(*networkingv1.IPAddress); ok && e.Spec.ParentRef != nil &&
			*e.Spec.ParentRef == *a.Spec.ParentRef {
			return nil
		}
		return errors.New("the address belongs to somebody else by now")
	}
	_, _, err := l.store().Delete(ctx, a.Name, mine, &metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// serviceCIDRPrefixes are the ranges of all ServiceCIDRs from which addresses may be taken.
func serviceCIDRPrefixes(find storageLookup) func(context.Context) ([]netip.Prefix, error) {
	return func(ctx context.Context) ([]netip.Prefix, error) {
		obj, err := find(networkingv1.GroupName, "servicecidrs").List(ctx,
			&metainternalversion.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return nil, err
		}
		var out []netip.Prefix
		for _, c := range obj.(*networkingv1.ServiceCIDRList).Items {
			if c.DeletionTimestamp == nil {
				out = append(out, services.Prefixes(&c)...)
			}
		}
		return out, nil
	}
}

// addServiceRepair keeps IPAddresses and ServiceCIDRs right as long as the server runs.
func (b *builder) addServiceRepair() error {
	informer := b.informers.Networking().V1().ServiceCIDRs().Informer() // asked for before the factory starts
	return b.generic.AddPostStartHook("gantry-service-addresses",
		func(ctx genericapiserver.PostStartHookContext) error {
			changed := make(changeSignal, 1)
			poke := func(any) { changed.Enqueue() }
			_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc: poke, UpdateFunc: func(_, o any) { poke(o) }, DeleteFunc: poke,
			})
			if err != nil {
				return err
			}
			go b.runServiceRepair(ctx, changed)
			return nil
		})
}

// serviceRepairer compares what Services hold with what is written down.
type serviceRepairer struct {
	*builder
	ipRecorder, nodePortRecorder record.EventRecorder
	leaked                       map[int]time.Time // node ports that nobody holds
}

func (b *builder) runServiceRepair(ctx context.Context, changed changeSignal) {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: b.client.CoreV1().Events("")})
	recorder := func(name string) record.EventRecorder {
		return broadcaster.NewRecorder(clientscheme.Scheme, corev1.EventSource{Component: name})
	}
	r := &serviceRepairer{builder: b, ipRecorder: recorder("ipallocator-repair-controller"),
		nodePortRecorder: recorder("portallocator-repair-controller")}
	tick := time.NewTicker(repairPeriod)
	defer tick.Stop()
	again := time.NewTimer(0) // while a ServiceCIDR waits for its last address
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = b.nodePortStorage.client.Close()
			return
		case <-tick.C:
		case <-changed:
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
func (r *serviceRepairer) runOnce(ctx context.Context) (bool, error) {
	all, err := r.client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("list services: %w", err)
	}
	entries, err := r.client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("list IP addresses: %w", err)
	}
	cidrs, err := r.client.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
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
func (r *serviceRepairer) stillValid(ctx context.Context, about runtime.Object) bool {
	previous, ok := about.(*corev1.Service)
	if !ok {
		return true
	}
	s, err := r.client.CoreV1().Services(previous.Namespace).Get(ctx, previous.Name, metav1.GetOptions{})
	return err == nil && s.UID == previous.UID && s.ResourceVersion == previous.ResourceVersion &&
		s.DeletionTimestamp == nil
}

func (r *serviceRepairer) recordFindings(ctx context.Context, by record.EventRecorder, all []services.Finding) {
	for _, f := range all {
		if r.stillValid(ctx, f.Object) {
			by.Event(f.Object, corev1.EventTypeWarning, f.Reason, f.Text)
		}
	}
}

func (r *serviceRepairer) repairIPAddresses(ctx context.Context, all []corev1.Service,
	w services.ServiceCIDRState) (err error) {
	found := services.RepairIPs(all, w, time.Now())
	defer func() { services.CountIPRepair(found.Findings, err) }()
	r.recordFindings(ctx, r.ipRecorder, found.Findings)
	client := r.client.NetworkingV1().IPAddresses()
	for _, e := range found.Delete {
		err := client.Delete(ctx, e.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &e.UID}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("IP address %s: %w", e.Name, err)
		}
		r.allocator.ReleaseOrphaned(e.Name)
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
func (r *serviceRepairer) createIPAddress(ctx context.Context, e *networkingv1.IPAddress) error {
	holds := func() bool {
		s, err := r.client.CoreV1().Services(e.Spec.ParentRef.Namespace).Get(ctx, e.Spec.ParentRef.Name,
			metav1.GetOptions{})
		return err == nil && slices.Contains(s.Spec.ClusterIPs, e.Name)
	}
	if !holds() {
		return nil
	}
	made, err := r.client.NetworkingV1().IPAddresses().Create(ctx, e, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil || holds() {
		return err
	}
	err = r.client.NetworkingV1().IPAddresses().Delete(ctx, e.Name,
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &made.UID}})
	return ignoreConflict(err)
}

// repairNodePorts compares the node ports of Services with the map of all that are held.
func (r *serviceRepairer) repairNodePorts(ctx context.Context, all []corev1.Service) (err error) {
	var found services.PortRepair
	defer func() { services.CountPortRepair(found.Findings, err) }()
	m, _, err := r.nodePortStorage.load(ctx)
	if err != nil {
		return err
	}
	found = services.RepairNodePorts(all, m, r.leaked, time.Now())
	r.leaked = found.Leaked
	r.recordFindings(ctx, r.nodePortRecorder, found.Findings)
	if len(found.Allocate)+len(found.Release) == 0 {
		return nil
	}
	now, err := r.nodePortStorage.list(ctx) // what went meanwhile gave its ports back already
	if err != nil {
		return err
	}
	held := r.allocator.NewPortMap(now)
	return r.nodePortStorage.update(ctx, func(m *services.PortMap) error {
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
func (r *serviceRepairer) syncServiceCIDR(ctx context.Context, c *networkingv1.ServiceCIDR,
	w services.ServiceCIDRState) (blocked bool, err error) {
	next, blocked := services.SyncServiceCIDR(c, w, metav1.Now())
	client := r.client.NetworkingV1().ServiceCIDRs()
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
