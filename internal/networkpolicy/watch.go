package networkpolicy

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/networkpolicy/rules"
	podutil "github.com/gantry-project/gantry/internal/pod"
)

// configHash is a static Pod's uid on its node; the mirror in the API server has another.
const configHash = "kubernetes.io/config.hash"

// objectCaches are the informers; those of Pods and namespaces are nil until the first policy
// exists.
type objectCaches struct{ policies, pods, namespaces cache.SharedIndexInformer }

// watch starts the informer of policies and returns when its first list has arrived.
func (k *Controller) watch(ctx context.Context) error {
	f := informers.NewSharedInformerFactoryWithOptions(k.o.Client, 0, informers.WithTransform(trimObject))
	k.caches.policies = f.Networking().V1().NetworkPolicies().Informer()
	return k.startInformers(ctx, f, k.caches.policies)
}

// watchPods starts the informers of Pods and namespaces, once.
func (k *Controller) watchPods(ctx context.Context) error {
	if k.caches.pods != nil {
		return nil
	}
	f := informers.NewSharedInformerFactoryWithOptions(k.o.Client, 0, informers.WithTransform(trimObject))
	pods, namespaces := f.Core().V1().Pods().Informer(), f.Core().V1().Namespaces().Informer()
	if err := k.startInformers(ctx, f, pods, namespaces); err != nil {
		return err
	}
	k.caches.pods, k.caches.namespaces = pods, namespaces
	return nil
}

func (k *Controller) startInformers(ctx context.Context, f informers.SharedInformerFactory,
	all ...cache.SharedIndexInformer) error {
	var synced []cache.InformerSynced
	for _, i := range all {
		r, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { k.signal() }, DeleteFunc: func(any) { k.signal() },
			UpdateFunc: func(old, cur any) {
				if !equalForPolicies(old, cur) {
					k.signal()
				}
			},
		})
		if err != nil {
			return fmt.Errorf("network policies: %w", err)
		}
		synced = append(synced, r.HasSynced)
	}
	f.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return ctx.Err()
	}
	return nil
}

// equalForPolicies reports whether rules depend on nothing that changed.
func equalForPolicies(old, cur any) bool {
	switch a := old.(type) {
	case *v1.Pod:
		b, ok := cur.(*v1.Pod)
		return ok && a.UID == b.UID && maps.Equal(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.Status.PodIPs,
			b.Status.PodIPs) && podutil.IsTerminal(a) == podutil.IsTerminal(b)
	case *v1.Namespace:
		b, ok := cur.(*v1.Namespace)
		return ok && maps.Equal(a.Labels, b.Labels)
	case *networkingv1.NetworkPolicy:
		b, ok := cur.(*networkingv1.NetworkPolicy)
		return ok && equality.Semantic.DeepEqual(a.Spec, b.Spec)
	}
	return false
}

// trimObject is an informer transform that keeps what is read here; there may be very many Pods.
func trimObject(o any) (any, error) {
	switch x := o.(type) {
	case *v1.Pod:
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: x.Namespace, Name: x.Name, UID: x.UID,
			ResourceVersion: x.ResourceVersion, Labels: x.Labels}}
		if h := x.Annotations[configHash]; h != "" {
			p.Annotations = map[string]string{configHash: h}
		}
		p.Spec = v1.PodSpec{NodeName: x.Spec.NodeName, HostNetwork: x.Spec.HostNetwork}
		for _, c := range slices.Concat(x.Spec.InitContainers, x.Spec.Containers) {
			if len(c.Ports) > 0 {
				p.Spec.Containers = append(p.Spec.Containers, v1.Container{Ports: c.Ports})
			}
		}
		p.Status = v1.PodStatus{Phase: x.Status.Phase, PodIP: x.Status.PodIP, PodIPs: x.Status.PodIPs}
		return p, nil
	case metav1.Object:
		x.SetManagedFields(nil)
	}
	return o, nil
}

func (v objectCaches) allPolicies() []*networkingv1.NetworkPolicy {
	return listAll[*networkingv1.NetworkPolicy](v.policies)
}

func listAll[T any](i cache.SharedIndexInformer) []T {
	var out []T
	for _, o := range i.GetStore().List() {
		if x, ok := o.(T); ok {
			out = append(out, x)
		}
	}
	return out
}

func (v objectCaches) allNamespaces() map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, n := range listAll[*v1.Namespace](v.namespaces) {
		out[n.Name] = n.Labels
	}
	return out
}

// pod returns the cached Pod of the lease; nil if there is none, or only an earlier Pod of the same
// name.
func (v objectCaches) pod(l Lease) *v1.Pod {
	if v.pods == nil {
		return nil
	}
	o, there, err := v.pods.GetStore().GetByKey(l.Pod)
	p, ok := o.(*v1.Pod)
	if err != nil || !there || !ok || l.UID != "" && string(p.UID) != l.UID && p.Annotations[configHash] != l.UID {
		return nil
	}
	return p
}

// allPods returns the Pods with addresses of their own. Leases have the addresses of this node's
// Pods before the API does; a leased address belongs to no other Pod, whatever an old status says.
func (v objectCaches) allPods(leases []Lease) []rules.Pod {
	var out []rules.Pod
	leased, localPods := map[netip.Addr]bool{}, map[string]bool{}
	for _, l := range leases {
		for _, ip := range l.IPs {
			leased[ip] = true
		}
		one := rules.Pod{UID: l.UID, IPs: l.IPs, Local: true, Unknown: true}
		one.Namespace, one.Name, _ = cache.SplitMetaNamespaceKey(l.Pod)
		if p := v.pod(l); p != nil {
			one.Unknown, one.Labels, one.Ports = false, p.Labels, portsOf(p)
			localPods[l.Pod] = true
		}
		out = append(out, one)
	}
	for _, p := range listAll[*v1.Pod](v.pods) {
		if p.Spec.HostNetwork || podutil.IsTerminal(p) || localPods[p.Namespace+"/"+p.Name] {
			continue
		}
		one := rules.Pod{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels, Ports: portsOf(p)}
		for _, s := range p.Status.PodIPs {
			if ip, err := netip.ParseAddr(s.IP); err == nil && !leased[ip.Unmap()] {
				one.IPs = append(one.IPs, ip.Unmap())
			}
		}
		if len(one.IPs) > 0 {
			out = append(out, one)
		}
	}
	return out
}

func portsOf(p *v1.Pod) []v1.ContainerPort {
	var out []v1.ContainerPort
	for _, c := range p.Spec.Containers {
		out = append(out, c.Ports...)
	}
	return out
}
