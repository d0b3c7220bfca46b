package mirror

import (
	"context"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/kubelet/podsource"
	"github.com/gantry-project/gantry/internal/pod"
)

// StatusManager take statuses to the API; statusmanager.Manager is one.
type StatusManager interface {
	SetPodStatus(pod *v1.Pod, status v1.PodStatus)
	DeletePod(pod *v1.Pod)
	RemoveStatus(uid types.UID)
}

// Manager keeps mirrors true. It is a StatusManager for workers, and a Receiver that passes on all
// but mirrors.
type Manager struct {
	client   kubernetes.Interface
	statuses StatusManager
	node     func() *v1.Node // as the API has it; nil: not known yet
	wakeup   chan struct{}

	mu           sync.Mutex
	entries      map[types.NamespacedName]*entry
	synced       bool
	sourcesReady bool
}

// entry is what is known of one name.
type entry struct {
	staticPods []*staticPod // that hold the name or wait for it, oldest first
	mirror     *v1.Pod
	delay      time.Duration // before a failed act is tried again
	retryAt    time.Time
}

// staticPod is a static Pod.
type staticPod struct {
	pod         *v1.Pod
	terminating bool
	status      *v1.PodStatus // newest; nil before the first
}

// Deps is what a Manager works with.
type Deps struct {
	Client   kubernetes.Interface
	Statuses StatusManager
	Node     func() *v1.Node // as the API has it; nil: not known yet
}

// New returns a Manager; Run makes it act.
func New(d Deps) *Manager {
	return &Manager{client: d.Client, statuses: d.Statuses, node: d.Node, wakeup: make(chan struct{}, 1),
		entries: map[types.NamespacedName]*entry{}}
}

// Filter returns a Receiver that keeps mirrors to itself and passes on the rest; API's Pods go
// through it.
func (k *Manager) Filter(to podsource.Receiver) podsource.Receiver { return mirrorFilter{k, to} }

type mirrorFilter struct {
	manager *Manager
	next    podsource.Receiver
}

func (s mirrorFilter) Put(source string, p *v1.Pod) {
	if pod.IsMirror(p) {
		s.manager.setMirror(p)
		return
	}
	s.next.Put(source, p)
}

func (s mirrorFilter) Remove(source string, p *v1.Pod, forced bool) {
	if pod.IsMirror(p) {
		s.manager.removeMirror(p)
		return
	}
	s.next.Remove(source, p, forced)
}

func (s mirrorFilter) Complete(source string) {
	s.manager.mu.Lock()
	s.manager.synced = true
	s.manager.mu.Unlock()
	s.manager.Trigger()
	s.next.Complete(source)
}

// SourcesReady says that every source has said what it has: mirrors without a Pod go from now on.
func (k *Manager) SourcesReady() {
	k.mu.Lock()
	k.sourcesReady = true
	k.mu.Unlock()
	k.Trigger()
}

// Trigger asks for a sync: something that decisions depend on may have changed.
func (k *Manager) Trigger() {
	select {
	case k.wakeup <- struct{}{}:
	default:
	}
}

func key(p *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

func (k *Manager) entry(n types.NamespacedName) *entry {
	e := k.entries[n]
	if e == nil {
		e = &entry{}
		k.entries[n] = e
	}
	return e
}

// SetStaticPod says that a source has a static Pod, or has it no more (ending).
func (k *Manager) SetStaticPod(p *v1.Pod, ending bool) {
	k.mu.Lock()
	e := k.entry(key(p))
	o := e.find(p.UID)
	if o == nil {
		o = &staticPod{}
		e.staticPods = append(e.staticPods, o)
	}
	o.pod, o.terminating = p, ending
	e.retryAt, e.delay = time.Time{}, 0
	k.mu.Unlock()
	k.Trigger()
}

func (e *entry) find(uid types.UID) *staticPod {
	for _, o := range e.staticPods {
		if o.pod.UID == uid {
			return o
		}
	}
	return nil
}

// setMirror takes in a mirror as the API has it, and brings its status up to date.
func (k *Manager) setMirror(m *v1.Pod) {
	k.mu.Lock()
	e := k.entry(key(m))
	e.mirror = m
	e.retryAt = time.Time{}
	e.writeStatus(k.statuses)
	k.mu.Unlock()
	k.Trigger()
}

func (k *Manager) removeMirror(m *v1.Pod) {
	k.mu.Lock()
	if e := k.entry(key(m)); e.mirror != nil && e.mirror.UID == m.UID {
		e.mirror = nil
		e.retryAt = time.Time{}
	}
	k.mu.Unlock()
	k.statuses.RemoveStatus(m.UID)
	k.Trigger()
}

// writeStatus has the status of the Pod that holds the name written to its mirror.
func (e *entry) writeStatus(to StatusManager) {
	if e.mirror == nil || e.mirror.DeletionTimestamp != nil || len(e.staticPods) == 0 ||
		e.staticPods[0].status == nil || !IsMirrorOf(e.mirror, e.staticPods[0].pod) {
		return
	}
	if e.staticPods[0].terminating && pod.IsPhaseTerminal(e.staticPods[0].status.Phase) {
		return // a Pod that its source does not have any more goes without a last phase, as upstream's do
	}
	to.SetPodStatus(e.mirror, MirrorStatus(e.mirror, *e.staticPods[0].status))
}

// SetPodStatus makes a status known.
func (k *Manager) SetPodStatus(p *v1.Pod, status v1.PodStatus) {
	if !pod.IsStatic(p) {
		k.statuses.SetPodStatus(p, status)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.entry(key(p))
	if o := e.find(p.UID); o != nil {
		o.status = &status
		e.writeStatus(k.statuses)
	}
}

// DeletePod deletes a Pod from the API after its last status. Static Pods have nothing to delete:
// their mirrors go when they have left the node.
func (k *Manager) DeletePod(p *v1.Pod) {
	if !pod.IsStatic(p) {
		k.statuses.DeletePod(p)
	}
}

// RemoveStatus forgets a Pod that has left the node.
func (k *Manager) RemoveStatus(uid types.UID) {
	k.mu.Lock()
	for _, e := range k.entries {
		for i, o := range e.staticPods {
			if o.pod.UID == uid {
				e.staticPods = append(e.staticPods[:i:i], e.staticPods[i+1:]...)
				e.retryAt = time.Time{}
				break
			}
		}
	}
	k.mu.Unlock()
	k.statuses.RemoveStatus(uid)
	k.Trigger()
}

// Run keeps mirrors true until ctx ends.
func (k *Manager) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-k.wakeup:
		case <-timer.C:
		}
		if wait := k.reconcile(ctx); wait > 0 {
			timer.Reset(wait)
		}
	}
}

// work is one act.
type work struct {
	act  Action
	name types.NamespacedName
	pod  *v1.Pod // to be mirrored, or the mirror to be deleted
	node *v1.Node
}

// reconcile does what is to be done and returns when to look again; 0 when something new has to be
// told first.
func (k *Manager) reconcile(ctx context.Context) (wait time.Duration) {
	for _, t := range k.dueWork(&wait) {
		err := k.do(ctx, t)
		k.mu.Lock()
		e := k.entry(t.name)
		if err == nil {
			e.delay = 0
		} else {
			e.delay = min(max(2*e.delay, 250*time.Millisecond), 30*time.Second)
			e.retryAt = time.Now().Add(e.delay)
			if ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Cannot keep the mirror of a static Pod true, trying again",
					"pod", klog.KRef(t.name.Namespace, t.name.Name), "after", e.delay)
			}
		}
		if remaining := max(time.Until(e.retryAt), time.Millisecond); wait == 0 || remaining < wait {
			wait = remaining
		}
		k.mu.Unlock()
	}
	return wait
}

func (k *Manager) dueWork(wait *time.Duration) []work {
	node := k.node()
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []work
	for n, e := range k.entries {
		s := State{Mirror: e.mirror, Node: node, Synced: k.synced, SourcesReady: k.sourcesReady}
		if len(e.staticPods) > 0 {
			s.Static, s.Terminating = e.staticPods[0].pod, e.staticPods[0].terminating
		}
		act := Next(s)
		if act == Nothing {
			if s.Static == nil && s.Mirror == nil {
				delete(k.entries, n)
			}
			continue
		}
		if remaining := time.Until(e.retryAt); remaining > 0 {
			if *wait == 0 || remaining < *wait {
				*wait = remaining
			}
			continue
		}
		t := work{act, n, s.Static, node}
		if act == Delete {
			t.pod = s.Mirror
		}
		e.retryAt = time.Now().Add(unseenTimeout) // before the act: the watch may tell what came of it while it is done
		out = append(out, t)
	}
	return out
}

const (
	timeout       = 10 * time.Second // of one call
	unseenTimeout = 10 * time.Second // how long the watch may take to tell what came of an act before it is done again
)

func (k *Manager) do(ctx context.Context, t work) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	pods := k.client.CoreV1().Pods(t.name.Namespace)
	switch t.act {
	case Create:
		klog.FromContext(ctx).Info("Creating a mirror pod for static pod", "pod", klog.KObj(t.pod))
		_, err := pods.Create(ctx, NewMirrorPod(t.pod, t.node), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			if is, e := pods.Get(ctx, t.name.Name, metav1.GetOptions{}); e == nil && IsMirrorOf(is, t.pod) {
				return nil
			}
		}
		if err != nil {
			return fmt.Errorf("create mirror: %w", err)
		}
	case Delete:
		klog.FromContext(ctx).Info("Deleting a mirror pod", "pod", klog.KObj(t.pod), "podUID", t.pod.UID)
		zero := int64(0)
		err := pods.Delete(ctx, t.name.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero,
			Preconditions: metav1.NewUIDPreconditions(string(t.pod.UID))})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete mirror: %w", err)
		}
	}
	return nil
}
