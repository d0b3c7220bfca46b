package devicetainteviction

import (
	"context"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
)

// Prefixes of queue keys.
const (
	podKey  = "pod:"
	ruleKey = "rule:"
)

const byPoolIndex = "devicetaintPool"

type controller struct {
	controllerContext controllerruntime.ControllerContext
	queue             *controllerruntime.Queue
	pods              corelisters.PodLister
	claims            cache.Indexer
	slices            cache.Indexer
	rules             resourcelisters.DeviceTaintRuleLister // nil: the API server does not serve them
	evictionState
}

// evictionState is state that the API does not have.
type evictionState struct {
	mu      sync.Mutex
	pending map[types.UID]bool // Pods to be evicted later
	evicted map[types.UID]int  // number by rule
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	pods, r := d.Informers.Core().V1().Pods(), d.Informers.Resource().V1()
	claims, slices := r.ResourceClaims().Informer(), r.ResourceSlices().Informer()
	// AddIndexers only fails on a stopped informer, when the process is about to end.
	_ = claims.AddIndexers(cache.Indexers{byPoolIndex: poolsOfClaim})
	_ = slices.AddIndexers(
		cache.Indexers{byPoolIndex: func(o any) ([]string, error) {
			return []string{poolOf(o.(*resourceapi.ResourceSlice)).key()}, nil
		}})
	c := &controller{controllerContext: d, pods: pods.Lister(), claims: claims.GetIndexer(),
		slices: slices.GetIndexer(), evictionState: evictionState{pending: map[types.UID]bool{},
			evicted: map[types.UID]int{}}}
	c.queue = controllerruntime.NewQueue("devicetaint", 4, c.syncHandler)
	c.queue.Watch(pods.Informer(), c.keysOfPod)
	c.queue.Watch(claims, keysOfClaim)
	c.queue.Watch(slices, c.keysOfSlice)
	if rulesServed(d) {
		c.rules = r.DeviceTaintRules().Lister()
		c.queue.Watch(r.DeviceTaintRules().Informer(), c.keysOfRule)
	}
	return c.queue
}

// rulesServed asks the API server for the resource; if discovery fails it is assumed to exist.
func rulesServed(d controllerruntime.ControllerContext) bool {
	list, err := d.Client.Discovery().ServerResourcesForGroupVersion(resourceapi.SchemeGroupVersion.String())
	if err != nil {
		return !apierrors.IsNotFound(err)
	}
	for i := range list.APIResources {
		if list.APIResources[i].Name == "devicetaintrules" {
			return true
		}
	}
	return len(list.APIResources) == 0
}

func (p Pool) key() string { return p.Driver + "/" + p.Name }

func poolOf(s *resourceapi.ResourceSlice) Pool { return Pool{s.Spec.Driver, s.Spec.Pool.Name} }

func poolsOfClaim(o any) ([]string, error) {
	a := o.(*resourceapi.ResourceClaim).Status.Allocation
	if a == nil {
		return nil, nil
	}
	var keys []string
	for i := range a.Devices.Results {
		keys = append(keys, Pool{a.Devices.Results[i].Driver, a.Devices.Results[i].Pool}.key())
	}
	return keys, nil
}

// keysOfPod returns a Pod with claims when it is bound or its claims change.
func (c *controller) keysOfPod(old, cur runtime.Object) []string {
	p, ok := cur.(*corev1.Pod)
	if !ok {
		if was, ok := old.(*corev1.Pod); ok {
			c.dropPod(was.UID)
		}
		return nil
	}
	if p.Spec.NodeName == "" || len(p.Spec.ResourceClaims) == 0 && p.Status.ExtendedResourceClaimStatus == nil {
		return nil
	}
	if o, ok := old.(*corev1.Pod); ok && o.Spec.NodeName == p.Spec.NodeName && equality.Semantic.DeepEqual(
		o.Status.ResourceClaimStatuses, p.Status.ResourceClaimStatuses) &&
		equality.Semantic.DeepEqual(o.Status.ExtendedResourceClaimStatus, p.Status.ExtendedResourceClaimStatus) {
		return nil
	}
	return []string{podKey + p.Namespace + "/" + p.Name}
}

// podKeysOfClaim returns the Pods that a claim is reserved for.
func podKeysOfClaim(c *resourceapi.ResourceClaim) (keys []string) {
	if c == nil {
		return nil
	}
	for _, r := range c.Status.ReservedFor {
		if r.APIGroup == "" && r.Resource == "pods" {
			keys = append(keys, podKey+c.Namespace+"/"+r.Name)
		}
	}
	return keys
}

func keysOfClaim(old, cur runtime.Object) []string {
	was, _ := old.(*resourceapi.ResourceClaim)
	is, _ := cur.(*resourceapi.ResourceClaim)
	if was != nil && is != nil && was.UID == is.UID &&
		(was.Status.Allocation == nil) == (is.Status.Allocation == nil) && equality.Semantic.DeepEqual(
		was.Status.ReservedFor, is.Status.ReservedFor) {
		return nil
	}
	return append(podKeysOfClaim(was), podKeysOfClaim(is)...)
}

// keysOfSlice returns the users of a pool if a NoExecute taint was added or removed.
func (c *controller) keysOfSlice(old, cur runtime.Object) []string {
	var keys []string
	for _, o := range []runtime.Object{old, cur} {
		s, ok := o.(*resourceapi.ResourceSlice)
		if !ok {
			continue
		}
		if key := poolOf(s).key(); hasNoExecuteTaint(s) || c.executesPods(key) {
			keys = append(keys, c.podKeysOfPool(key)...)
		}
	}
	return keys
}

func hasNoExecuteTaint(s *resourceapi.ResourceSlice) bool {
	for i := range s.Spec.Devices {
		for _, t := range s.Spec.Devices[i].Taints {
			if t.Effect == resourceapi.DeviceTaintEffectNoExecute {
				return true
			}
		}
	}
	return false
}

// executesPods reports whether any slice of a pool has such a taint, including older generations,
// which a newer one may end.
func (c *controller) executesPods(key string) bool {
	all, _ := c.slices.ByIndex(byPoolIndex, key)
	for _, o := range all {
		if hasNoExecuteTaint(o.(*resourceapi.ResourceSlice)) {
			return true
		}
	}
	return false
}

func (c *controller) podKeysOfPool(pool string) (keys []string) {
	all, _ := c.claims.ByIndex(byPoolIndex, pool)
	for _, o := range all {
		keys = append(keys, podKeysOfClaim(o.(*resourceapi.ResourceClaim))...)
	}
	return keys
}

// keysOfRule returns all users of devices, as rules seldom change, and the rule itself for its
// status.
func (c *controller) keysOfRule(old, cur runtime.Object) []string {
	was, _ := old.(*resourceapi.DeviceTaintRule)
	is, _ := cur.(*resourceapi.DeviceTaintRule)
	if was != nil && is != nil && was.UID == is.UID && equality.Semantic.DeepEqual(was.Spec, is.Spec) {
		return nil
	}
	var keys []string
	if is != nil {
		keys = append(keys, ruleKey+is.Name)
	}
	if was != nil && is == nil {
		c.mu.Lock()
		delete(c.evicted, was.UID)
		c.mu.Unlock()
	}
	for _, o := range c.claims.List() {
		keys = append(keys, podKeysOfClaim(o.(*resourceapi.ResourceClaim))...)
	}
	return keys
}

func (c *controller) readState() (State, error) {
	k := State{
		Slices: func(p Pool) []*resourceapi.ResourceSlice {
			all, _ := c.slices.ByIndex(byPoolIndex, p.key())
			out := make([]*resourceapi.ResourceSlice, len(all))
			for i := range all {
				out[i] = all[i].(*resourceapi.ResourceSlice)
			}
			return out
		},
		Claim: func(namespace, name string) *resourceapi.ResourceClaim {
			o, ok, err := c.claims.GetByKey(namespace + "/" + name)
			if !ok || err != nil {
				return nil
			}
			return o.(*resourceapi.ResourceClaim)
		},
	}
	if c.rules == nil {
		return k, nil
	}
	var err error
	k.Rules, err = c.rules.List(labels.Everything())
	return k, err
}

func (c *controller) syncHandler(ctx context.Context, key string) (time.Duration, error) {
	if name, ok := strings.CutPrefix(key, ruleKey); ok {
		return c.syncRule(ctx, name)
	}
	ns, name, _ := strings.Cut(strings.TrimPrefix(key, podKey), "/")
	p, err := c.pods.Pods(ns).Get(name)
	if err != nil || p.DeletionTimestamp != nil {
		return 0, controllerruntime.IgnoreNotFound(err)
	}
	k, err := c.readState()
	if err != nil {
		return 0, err
	}
	now := time.Now()
	v := Decide(p, k)
	if !v.Evict {
		if c.dropPod(p.UID) {
			c.controllerContext.Recorder.Event(p, corev1.EventTypeNormal, "DeviceTaintManagerEviction",
				"Cancelling deletion")
		}
		return 0, nil
	}
	if wait := v.At.Sub(now); wait > 0 {
		c.expectEviction(p.UID)
		c.notifyRules(k, v, 0)
		return wait, nil
	}
	ours, err := c.evict(ctx, p, v)
	if err != nil {
		return 0, controllerruntime.IgnoreNotFound(err)
	}
	if ours {
		count(max(time.Since(v.At), 0))
		c.countEvictions(p.UID, v)
	}
	c.notifyRules(k, v, ruleStatusPeriod)
	return 0, nil
}

// evict sets the condition and deletes the Pod; false if it is another one by now or is being
// deleted by somebody else.
func (c *controller) evict(ctx context.Context, p *corev1.Pod, v Decision) (bool, error) {
	pods := c.controllerContext.Client.CoreV1().Pods(p.Namespace)
	if is, err := pods.Get(ctx, p.Name, metav1.GetOptions{}); err != nil || is.UID != p.UID ||
		is.DeletionTimestamp != nil {
		return false, err
	}
	c.controllerContext.Recorder.Event(p, corev1.EventTypeNormal, "DeviceTaintManagerEviction", "Marking for deletion")
	var why []string
	for _, b := range v.Causes {
		why = append(why, b.Device)
	}
	c.controllerContext.Journal.Put(pod.Ref(p), journal.Acted{Controller: "devicetaint", Action: "deletes the Pod",
		Message: "a device it uses is tainted NoExecute and the claim does not tolerate that any longer: " +
			strings.Join(why, ", ")})
	return true, controllerruntime.Disruption{Reason: "DeletionByDeviceTaintManager",
		Message: "Device Taint manager: deleting due to NoExecute taint"}.Delete(ctx, c.controllerContext.Client, p)
}

func (m *evictionState) expectEviction(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pending[uid] = true
}

// dropPod reports whether an eviction of the Pod was pending, and forgets it.
func (m *evictionState) dropPod(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.pending[uid]
	delete(m.pending, uid)
	return was
}

// countEvictions counts an eviction for its rules.
func (m *evictionState) countEvictions(uid types.UID, v Decision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pending, uid)
	for _, b := range v.Causes {
		if b.Rule != "" {
			m.evicted[b.Rule]++
		}
	}
}
