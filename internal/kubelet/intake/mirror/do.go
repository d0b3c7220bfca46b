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

	"github.com/gantry-project/gantry/internal/kubelet/intake"
	"github.com/gantry-project/gantry/internal/pod"
)

// Statuses take statuses to the API; patch.Writer is one.
type Statuses interface {
	Set(pod *v1.Pod, status v1.PodStatus)
	Finish(pod *v1.Pod)
	Drop(uid types.UID)
}

// Keeper keeps mirrors true. It is a Statuses for workers, and a Receiver that passes on all but mirrors.
type Keeper struct {
	client   kubernetes.Interface
	statuses Statuses
	node     func() *v1.Node // as the API has it; nil: not known yet
	bell     chan struct{}

	mu      sync.Mutex
	names   map[types.NamespacedName]*name
	heard   bool
	settled bool
}

// name is what is known of one name.
type name struct {
	static []*one // that hold the name or wait for it, oldest first
	mirror *v1.Pod
	delay  time.Duration // before a failed act is tried again
	after  time.Time
}

// one is a static Pod.
type one struct {
	pod    *v1.Pod
	ending bool
	status *v1.PodStatus // newest; nil before the first
}

// Deps is what a Keeper works with.
type Deps struct {
	Client   kubernetes.Interface
	Statuses Statuses
	Node     func() *v1.Node // as the API has it; nil: not known yet
}

// New returns a Keeper; Run makes it act.
func New(d Deps) *Keeper {
	return &Keeper{client: d.Client, statuses: d.Statuses, node: d.Node, bell: make(chan struct{}, 1), names: map[types.NamespacedName]*name{}}
}

// Sift returns a Receiver that keeps mirrors to itself and passes on the rest; API's Pods go through it.
func (k *Keeper) Sift(to intake.Receiver) intake.Receiver { return sieve{k, to} }

type sieve struct {
	k  *Keeper
	to intake.Receiver
}

func (s sieve) Put(source string, p *v1.Pod) {
	if pod.IsMirror(p) {
		s.k.seen(p)
		return
	}
	s.to.Put(source, p)
}

func (s sieve) Gone(source string, p *v1.Pod, forced bool) {
	if pod.IsMirror(p) {
		s.k.unseen(p)
		return
	}
	s.to.Gone(source, p, forced)
}

func (s sieve) Complete(source string) {
	s.k.mu.Lock()
	s.k.heard = true
	s.k.mu.Unlock()
	s.k.Look()
	s.to.Complete(source)
}

// Settled says that every source has said what it has: mirrors without a Pod go from now on.
func (k *Keeper) Settled() {
	k.mu.Lock()
	k.settled = true
	k.mu.Unlock()
	k.Look()
}

// Look rings: something that decisions depend on may have changed.
func (k *Keeper) Look() {
	select {
	case k.bell <- struct{}{}:
	default:
	}
}

func key(p *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: p.Namespace, Name: p.Name}
}

func (k *Keeper) name(n types.NamespacedName) *name {
	e := k.names[n]
	if e == nil {
		e = &name{}
		k.names[n] = e
	}
	return e
}

// Has says that a source has a static Pod, or has it no more (ending).
func (k *Keeper) Has(p *v1.Pod, ending bool) {
	k.mu.Lock()
	e := k.name(key(p))
	o := e.find(p.UID)
	if o == nil {
		o = &one{}
		e.static = append(e.static, o)
	}
	o.pod, o.ending = p, ending
	e.after, e.delay = time.Time{}, 0
	k.mu.Unlock()
	k.Look()
}

func (e *name) find(uid types.UID) *one {
	for _, o := range e.static {
		if o.pod.UID == uid {
			return o
		}
	}
	return nil
}

// seen takes in a mirror as the API has it, and brings its status up to date.
func (k *Keeper) seen(m *v1.Pod) {
	k.mu.Lock()
	e := k.name(key(m))
	e.mirror = m
	e.after = time.Time{}
	e.write(k.statuses)
	k.mu.Unlock()
	k.Look()
}

func (k *Keeper) unseen(m *v1.Pod) {
	k.mu.Lock()
	if e := k.name(key(m)); e.mirror != nil && e.mirror.UID == m.UID {
		e.mirror = nil
		e.after = time.Time{}
	}
	k.mu.Unlock()
	k.statuses.Drop(m.UID)
	k.Look()
}

// write has the status of the Pod that holds the name written to its mirror.
func (e *name) write(to Statuses) {
	if e.mirror == nil || e.mirror.DeletionTimestamp != nil || len(e.static) == 0 || e.static[0].status == nil || !Of(e.mirror, e.static[0].pod) {
		return
	}
	if ph := e.static[0].status.Phase; e.static[0].ending && (ph == v1.PodSucceeded || ph == v1.PodFailed) {
		return // a Pod that its source does not have any more goes without a last phase, as upstream's do
	}
	to.Set(e.mirror, Onto(e.mirror, *e.static[0].status))
}

// Set makes a status known.
func (k *Keeper) Set(p *v1.Pod, status v1.PodStatus) {
	if !pod.IsStatic(p) {
		k.statuses.Set(p, status)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.name(key(p))
	if o := e.find(p.UID); o != nil {
		o.status = &status
		e.write(k.statuses)
	}
}

// Finish deletes a Pod from the API after its last status. Static Pods have nothing to delete: their mirrors go when they have left the node.
func (k *Keeper) Finish(p *v1.Pod) {
	if !pod.IsStatic(p) {
		k.statuses.Finish(p)
	}
}

// Drop forgets a Pod that has left the node.
func (k *Keeper) Drop(uid types.UID) {
	k.mu.Lock()
	for _, e := range k.names {
		for i, o := range e.static {
			if o.pod.UID == uid {
				e.static = append(e.static[:i:i], e.static[i+1:]...)
				e.after = time.Time{}
				break
			}
		}
	}
	k.mu.Unlock()
	k.statuses.Drop(uid)
	k.Look()
}

// Run keeps mirrors true until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-k.bell:
		case <-timer.C:
		}
		if wait := k.round(ctx); wait > 0 {
			timer.Reset(wait)
		}
	}
}

// todo is one act.
type todo struct {
	act  Act
	name types.NamespacedName
	pod  *v1.Pod // to be mirrored, or the mirror to be deleted
	node *v1.Node
}

// round does what is to be done and returns when to look again; 0 when something new has to be told first.
func (k *Keeper) round(ctx context.Context) (wait time.Duration) {
	for _, t := range k.due(&wait) {
		err := k.do(ctx, t)
		k.mu.Lock()
		e := k.name(t.name)
		if err == nil {
			e.delay = 0
		} else {
			e.delay = min(max(2*e.delay, 250*time.Millisecond), 30*time.Second)
			e.after = time.Now().Add(e.delay)
			if ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Cannot keep the mirror of a static Pod true, trying again", "pod", klog.KRef(t.name.Namespace, t.name.Name), "after", e.delay)
			}
		}
		if left := max(time.Until(e.after), time.Millisecond); wait == 0 || left < wait {
			wait = left
		}
		k.mu.Unlock()
	}
	return wait
}

func (k *Keeper) due(wait *time.Duration) []todo {
	node := k.node()
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []todo
	for n, e := range k.names {
		s := State{Mirror: e.mirror, Node: node, Heard: k.heard, Settled: k.settled}
		if len(e.static) > 0 {
			s.Static, s.Ending = e.static[0].pod, e.static[0].ending
		}
		act := Next(s)
		if act == Nothing {
			if s.Static == nil && s.Mirror == nil {
				delete(k.names, n)
			}
			continue
		}
		if left := time.Until(e.after); left > 0 {
			if *wait == 0 || left < *wait {
				*wait = left
			}
			continue
		}
		t := todo{act, n, s.Static, node}
		if act == Delete {
			t.pod = s.Mirror
		}
		e.after = time.Now().Add(unseenFor) // before the act: the watch may tell what came of it while it is done
		out = append(out, t)
	}
	return out
}

const (
	timeout   = 10 * time.Second // of one call
	unseenFor = 10 * time.Second // how long the watch may take to tell what came of an act before it is done again
)

func (k *Keeper) do(ctx context.Context, t todo) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	pods := k.client.CoreV1().Pods(t.name.Namespace)
	switch t.act {
	case Create:
		klog.FromContext(ctx).Info("Creating a mirror pod for static pod", "pod", klog.KObj(t.pod))
		_, err := pods.Create(ctx, Image(t.pod, t.node), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			if is, e := pods.Get(ctx, t.name.Name, metav1.GetOptions{}); e == nil && Of(is, t.pod) {
				return nil
			}
		}
		if err != nil {
			return fmt.Errorf("create mirror: %w", err)
		}
	case Delete:
		klog.FromContext(ctx).Info("Deleting a mirror pod", "pod", klog.KObj(t.pod), "podUID", t.pod.UID)
		zero := int64(0)
		err := pods.Delete(ctx, t.name.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: metav1.NewUIDPreconditions(string(t.pod.UID))})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete mirror: %w", err)
		}
	}
	return nil
}
