package why

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// heartbeat is how often a lease is renewed; upstream's kubelets do it every 10 s.
const heartbeat = 5 * time.Second

// renewNodes plays the kubelets: leases are renewed, Pods bound to a node become Running and Ready,
// deleted ones end.
func (w *Cluster) renewNodes(ctx context.Context) {
	factory := informers.NewSharedInformerFactory(w.client, 0)
	pods, nodes := factory.Core().V1().Pods().Informer(), factory.Core().V1().Nodes().Informer()
	work := make(chan *corev1.Pod, 1000)
	put := func(o any) {
		if p, ok := o.(*corev1.Pod); ok && p.Spec.NodeName != "" {
			select {
			case work <- p:
			case <-ctx.Done():
			}
		}
	}
	_, _ = pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: put, UpdateFunc: func(_, o any) { put(o) }})
	_, _ = nodes.AddEventHandler(
		cache.ResourceEventHandlerFuncs{AddFunc: func(o any) { w.renew(ctx, o.(*corev1.Node)) }})
	factory.Start(ctx.Done())
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			factory.Shutdown()
			return
		case p := <-work:
			w.runFakePod(ctx, p)
		case <-tick.C:
			for _, o := range nodes.GetStore().List() {
				w.renew(ctx, o.(*corev1.Node))
			}
		}
	}
}

func (w *Cluster) renew(ctx context.Context, n *corev1.Node) {
	w.mu.Lock()
	silent := w.unresponsive[n.Name]
	w.mu.Unlock()
	if silent {
		return
	}
	now, seconds := metav1.NewMicroTime(time.Now()), int32(40)
	leases := w.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	l, err := leases.Get(ctx, n.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, _ = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: n.Name},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &n.Name, RenewTime: &now, LeaseDurationSeconds: &seconds}},
			metav1.CreateOptions{})
		return
	}
	if err == nil {
		l.Spec.RenewTime = &now
		_, _ = leases.Update(ctx, l, metav1.UpdateOptions{}) // the next renewal comes soon
	}
}

// runFakePod does for a Pod what its kubelet would.
func (w *Cluster) runFakePod(ctx context.Context, p *corev1.Pod) {
	w.mu.Lock()
	silent, slow, unready := w.unresponsive[p.Spec.NodeName], w.slowNodes[p.Spec.NodeName],
		w.unreadyNodes[p.Namespace+"/"+p.Name]
	phase := w.podPhases[p.Namespace+"/"+p.Name]
	w.mu.Unlock()
	if silent {
		return
	}
	pods := w.client.CoreV1().Pods(p.Namespace)
	if p.DeletionTimestamp != nil {
		if g := p.DeletionGracePeriodSeconds; slow && g != nil && *g > 0 {
			w.finished.Go(func() {
				select {
				case <-time.After(time.Until(p.DeletionTimestamp.Time)):
					w.end(ctx, p)
				case <-ctx.Done():
				}
			})
			return
		}
		w.end(ctx, p)
		return
	}
	next := p.DeepCopy()
	status(next, phase, !unready)
	if same(p, next) {
		return
	}
	if _, err := pods.UpdateStatus(ctx, next, metav1.UpdateOptions{}); apierrors.IsConflict(err) {
		if fresh, err := pods.Get(ctx, p.Name, metav1.GetOptions{}); err == nil {
			w.runFakePod(ctx, fresh)
		}
	}
}

// end reports the containers' end and lets the object go.
func (w *Cluster) end(ctx context.Context, p *corev1.Pod) {
	pods := w.client.CoreV1().Pods(p.Namespace)
	fresh, err := pods.Get(ctx, p.Name, metav1.GetOptions{})
	if err != nil || fresh.UID != p.UID {
		return
	}
	ended := fresh.DeepCopy()
	for i := range ended.Status.ContainerStatuses {
		s := &ended.Status.ContainerStatuses[i]
		s.Ready, s.State = false,
			corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed",
				FinishedAt: metav1.Now(), ContainerID: s.ContainerID}}
	}
	if ended.Status.Phase == corev1.PodRunning {
		ended.Status.Phase = corev1.PodSucceeded
	}
	_, _ = pods.UpdateStatus(ctx, ended, metav1.UpdateOptions{})
	zero, uid := int64(0), fresh.UID
	_ = pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero,
		Preconditions: &metav1.Preconditions{UID: &uid}})
}

func status(p *corev1.Pod, phase corev1.PodPhase, ready bool) {
	if phase == "" {
		phase = corev1.PodRunning
	}
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return
	}
	p.Status.Phase = phase
	if phase != corev1.PodRunning {
		return
	}
	began := metav1.Now()
	if p.Status.StartTime != nil {
		began = *p.Status.StartTime
	}
	p.Status.StartTime, p.Status.PodIP, p.Status.HostIP = &began, "192.0.2.7", "192.0.2.1"
	p.Status.PodIPs, p.Status.HostIPs = []corev1.PodIP{{IP: "192.0.2.7"}}, []corev1.HostIP{{IP: "192.0.2.1"}}
	p.Status.ContainerStatuses = nil
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses,
			corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: "sha256:0", Ready: ready, Started: &ready,
				ContainerID: "containerd://" + c.Name,
				State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}}})
	}
	is := corev1.ConditionFalse
	if ready {
		is = corev1.ConditionTrue
	}
	set(p, corev1.PodInitialized, corev1.ConditionTrue)
	set(p, corev1.ContainersReady, is)
	set(p, corev1.PodReady, is)
	set(p, corev1.PodScheduled, corev1.ConditionTrue)
}

func set(p *corev1.Pod, t corev1.PodConditionType, s corev1.ConditionStatus) {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == t {
			if c.Status != s {
				c.Status, c.LastTransitionTime = s, metav1.Now()
			}
			return
		}
	}
	p.Status.Conditions = append(p.Status.Conditions,
		corev1.PodCondition{Type: t, Status: s, LastTransitionTime: metav1.Now()})
}

func same(a, b *corev1.Pod) bool { return fmt.Sprint(a.Status) == fmt.Sprint(b.Status) }
