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

// ledger keeps what the allocator hands out in the IPAddress objects of this server.
type ledger struct{ find lookup }

func (l ledger) store() rest.StandardStorage { return l.find(networkingv1.GroupName, "ipaddresses") }

// Take implements services.Ledger.
func (l ledger) Take(ctx context.Context, a *networkingv1.IPAddress) error {
	_, err := l.store().Create(ctx, a.DeepCopy(), rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	have, err := l.store().Get(ctx, a.Name, &metav1.GetOptions{ResourceVersion: ""})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if e, ok := have.(*networkingv1.IPAddress); ok && err == nil && e.Spec.ParentRef != nil && *e.Spec.ParentRef == *a.Spec.ParentRef {
		return nil // left by an earlier try to store this very Service
	}
	return services.ErrTaken
}

// Give implements services.Ledger.
func (l ledger) Give(ctx context.Context, a *networkingv1.IPAddress) error {
	mine := func(_ context.Context, obj runtime.Object) error {
		if e, ok := obj.(*networkingv1.IPAddress); ok && e.Spec.ParentRef != nil && *e.Spec.ParentRef == *a.Spec.ParentRef {
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

// storedCIDRs are the ranges of all ServiceCIDRs from which addresses may be taken.
func storedCIDRs(find lookup) func(context.Context) ([]netip.Prefix, error) {
	return func(ctx context.Context) ([]netip.Prefix, error) {
		obj, err := find(networkingv1.GroupName, "servicecidrs").List(ctx, &metainternalversion.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return nil, err
		}
		var out []netip.Prefix
		for _, c := range obj.(*networkingv1.ServiceCIDRList).Items {
			if c.DeletionTimestamp == nil {
				out = append(out, services.Ranges(&c)...)
			}
		}
		return out, nil
	}
}

// addRepair keeps IPAddresses and ServiceCIDRs right as long as the server runs.
func (b *builder) addRepair() error {
	informer := b.informers.Networking().V1().ServiceCIDRs().Informer() // asked for before the factory starts
	return b.generic.AddPostStartHook("gantry-service-addresses", func(ctx genericapiserver.PostStartHookContext) error {
		news := make(changes, 1)
		poke := func(any) { news.Enqueue() }
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: poke, UpdateFunc: func(_, o any) { poke(o) }, DeleteFunc: poke,
		})
		if err != nil {
			return err
		}
		go b.repair(ctx, news)
		return nil
	})
}

// repairer compares what Services hold with what is written down.
type repairer struct {
	*builder
	addresses, nodePorts record.EventRecorder
	lost                 map[int]time.Time // node ports that nobody holds
}

func (b *builder) repair(ctx context.Context, news changes) {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: b.client.CoreV1().Events("")})
	recorder := func(name string) record.EventRecorder {
		return broadcaster.NewRecorder(clientscheme.Scheme, corev1.EventSource{Component: name})
	}
	r := &repairer{builder: b, addresses: recorder("ipallocator-repair-controller"), nodePorts: recorder("portallocator-repair-controller")}
	tick := time.NewTicker(repairPeriod)
	defer tick.Stop()
	again := time.NewTimer(0) // while a ServiceCIDR waits for its last address
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			_ = b.ports.client.Close()
			return
		case <-tick.C:
		case <-news:
		case <-again.C:
		}
		waits, err := r.once(ctx)
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("The addresses of Services could not be compared; the next try is in a second", "err", err)
			waits = true
		}
		if waits {
			again.Reset(time.Second)
		}
	}
}

// once compares once; true when a ServiceCIDR waits for addresses to be given back.
func (r *repairer) once(ctx context.Context) (bool, error) {
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
	if err := r.mend(ctx, all.Items, services.World{CIDRs: cidrs.Items, Entries: entries.Items}); err != nil {
		return false, err
	}
	if err := r.mendPorts(ctx, all.Items); err != nil {
		return false, err
	}
	waits := false
	for i := range cidrs.Items {
		blocked, err := r.keepCIDR(ctx, &cidrs.Items[i], services.World{CIDRs: cidrs.Items, Entries: entries.Items})
		if err != nil {
			return waits, fmt.Errorf("service CIDR %s: %w", cidrs.Items[i].Name, err)
		}
		waits = waits || blocked
	}
	return waits, nil
}

// still says that a finding about a Service is one: it was not deleted or changed between the lists.
func (r *repairer) still(ctx context.Context, about runtime.Object) bool {
	was, ok := about.(*corev1.Service)
	if !ok {
		return true
	}
	s, err := r.client.CoreV1().Services(was.Namespace).Get(ctx, was.Name, metav1.GetOptions{})
	return err == nil && s.UID == was.UID && s.ResourceVersion == was.ResourceVersion && s.DeletionTimestamp == nil
}

func (r *repairer) say(ctx context.Context, by record.EventRecorder, all []services.Finding) {
	for _, f := range all {
		if r.still(ctx, f.About) {
			by.Event(f.About, corev1.EventTypeWarning, f.Reason, f.Text)
		}
	}
}

func (r *repairer) mend(ctx context.Context, all []corev1.Service, w services.World) (err error) {
	found := services.Mend(all, w, time.Now())
	defer func() { services.CountIPRepair(found.Say, err) }()
	r.say(ctx, r.addresses, found.Say)
	client := r.client.NetworkingV1().IPAddresses()
	for _, e := range found.Remove {
		err := client.Delete(ctx, e.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &e.UID}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("IP address %s: %w", e.Name, err)
		}
		r.allocator.Forget(e.Name)
	}
	for _, e := range found.Make {
		if err := r.enter(ctx, e); err != nil {
			return fmt.Errorf("IP address %s: %w", e.Name, err)
		}
	}
	return nil
}

// enter writes an address down for the Service that holds it. Services that go meanwhile gave their addresses back already: nothing of them may stay.
func (r *repairer) enter(ctx context.Context, e *networkingv1.IPAddress) error {
	holds := func() bool {
		s, err := r.client.CoreV1().Services(e.Spec.ParentRef.Namespace).Get(ctx, e.Spec.ParentRef.Name, metav1.GetOptions{})
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
	err = r.client.NetworkingV1().IPAddresses().Delete(ctx, e.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &made.UID}})
	return ignorable(err)
}

// mendPorts compares the node ports of Services with the map of all that are held.
func (r *repairer) mendPorts(ctx context.Context, all []corev1.Service) (err error) {
	var found services.PortRepair
	defer func() { services.CountPortRepair(found.Say, err) }()
	m, _, err := r.ports.read(ctx)
	if err != nil {
		return err
	}
	found = services.MendPorts(all, m, r.lost, time.Now())
	r.lost = found.Lost
	r.say(ctx, r.nodePorts, found.Say)
	if len(found.Take)+len(found.Give) == 0 {
		return nil
	}
	now, err := r.ports.list(ctx) // what went meanwhile gave its ports back already
	if err != nil {
		return err
	}
	held := r.allocator.NewPortMap(now)
	return r.ports.change(ctx, func(m *services.PortMap) error {
		for _, n := range found.Take {
			m.Set(n, m.Has(n) || held.Has(n))
		}
		for _, n := range found.Give {
			m.Set(n, false)
		}
		return nil
	})
}

// keepCIDR says that a range is ready, holds it as long as addresses of it are in use, and lets it go then.
func (r *repairer) keepCIDR(ctx context.Context, c *networkingv1.ServiceCIDR, w services.World) (blocked bool, err error) {
	next, blocked := services.Keep(c, w, metav1.Now())
	client := r.client.NetworkingV1().ServiceCIDRs()
	if next.Status != nil {
		if _, err = client.UpdateStatus(ctx, next.Status, metav1.UpdateOptions{}); ignorable(err) != nil {
			return blocked, err
		}
	}
	if next.Finalizers != nil {
		_, err = client.Update(ctx, next.Finalizers, metav1.UpdateOptions{})
	}
	return blocked, ignorable(err)
}

// ignorable leaves out what the next round sees by itself.
func ignorable(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
