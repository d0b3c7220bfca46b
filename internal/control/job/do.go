// Package job runs Pods until enough of them have succeeded, or the Job has failed.
//
// In: Jobs and the Pods they control. Out: Pods, each with a finalizer until its end is counted
// exactly once; status and conditions in upstream's two steps (criterion met, then complete or
// failed).
package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
)

var kind = batchv1.SchemeGroupVersion.WithKind("Job")

type controller struct {
	controllerContext controllerruntime.ControllerContext
	jobs              batchlisters.JobLister
	pods              cache.SharedIndexInformer
	podControl        controllerruntime.PodControl
	queue             *controllerruntime.Queue

	mu               sync.Mutex
	failed           map[string]time.Time // by key: when a Pod last failed, for the backoff
	finalizerRemoved map[types.UID]bool   // Pods whose finalizer was removed and whose update has not been observed yet
	// by Job: resourceVersion of the last written status, until the cache has it
	lastWritten map[types.UID]string
}

// New returns the controller.
func New(d controllerruntime.ControllerContext) controllerruntime.Runner {
	jobs, pods := d.Informers.Batch().V1().Jobs(), d.Informers.Core().V1().Pods().Informer()
	c := &controller{controllerContext: d, jobs: jobs.Lister(), pods: pods,
		podControl: controllerruntime.PodControl{ControllerContext: d,
			Expectations: controllerruntime.NewExpectations(), Controller: "job"}, failed: map[string]time.Time{},
		finalizerRemoved: map[types.UID]bool{}, lastWritten: map[types.UID]string{}}
	controllerruntime.IndexByController(pods)
	c.queue = controllerruntime.NewQueue("job", 5, c.syncJob)
	c.queue.Watch(jobs.Informer(), c.jobChanged)
	c.queue.Watch(pods, c.podChanged)
	return c.queue
}

// syncBatchPeriod is how long events of Pods and of the status are collected before the next sync,
// as upstream: the status of a large Job is written once a second, not once per Pod.
const syncBatchPeriod = time.Second

// jobChanged syncs at once after a client's change; changes of the status are mostly this
// controller's own.
func (c *controller) jobChanged(old, cur runtime.Object) []string {
	was, _ := old.(*batchv1.Job)
	is, _ := cur.(*batchv1.Job)
	if is == nil {
		is = was
	}
	key := is.Namespace + "/" + is.Name
	if was == nil && isManagedElsewhere(is) {
		byExternalController.WithLabelValues(*is.Spec.ManagedBy).Inc()
	}
	if cur == nil {
		c.mu.Lock()
		delete(c.lastWritten, is.UID)
		c.mu.Unlock()
	} else if c.cacheCaughtUp(is) {
		return []string{key} // a sync may wait for it
	}
	if was != nil && cur != nil && was.Generation == is.Generation &&
		(was.DeletionTimestamp == nil) == (is.DeletionTimestamp == nil) {
		c.queue.AddAfter(key, syncBatchPeriod)
		return nil
	}
	return []string{key}
}

// cacheBehind reports whether a Job from the cache is older than this controller's last write;
// counted ends and removed finalizers would then be processed again.
func (c *controller) cacheBehind(j *batchv1.Job) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.lastWritten[j.UID]
	if at == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(j.ResourceVersion, at)
	return err == nil && order < 0
}

// cacheCaughtUp reports whether the cache has just reached the last write.
func (c *controller) cacheCaughtUp(j *batchv1.Job) bool {
	if c.cacheBehind(j) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, waited := c.lastWritten[j.UID]
	delete(c.lastWritten, j.UID)
	return waited
}

// podChanged collects events of Pods; the removal of a finalizer is synced at once, as the next
// counting may wait for it.
func (c *controller) podChanged(old, cur runtime.Object) []string {
	keys := controllerruntime.OwnerKeys(kind.Kind)(old, cur)
	c.podControl.Expectations.ObservePod(keys, old, cur)
	was, _ := old.(*corev1.Pod)
	is, _ := cur.(*corev1.Pod)
	countTracked(was, is)
	if was != nil && (is == nil || !tracked(is)) {
		c.mu.Lock()
		delete(c.finalizerRemoved, was.UID)
		c.mu.Unlock()
	}
	if was != nil && is != nil && tracked(was) && !tracked(is) {
		return keys
	}
	if is != nil && tracked(is) && metav1.GetControllerOf(is) == nil { // released by its Job
		keys = append(keys, is.Namespace+"/")
	}
	for _, key := range keys {
		c.queue.AddAfter(key, syncBatchPeriod)
	}
	return nil
}

func (c *controller) syncJob(ctx context.Context, key string) (time.Duration, error) {
	ns, name, _ := cache.SplitMetaNamespaceKey(key)
	if name == "" {
		return 0, c.removeOrphanFinalizers(ctx, ns)
	}
	j, err := c.jobs.Jobs(ns).Get(name)
	if apierrors.IsNotFound(err) {
		c.podControl.Expectations.DeleteExpectations(key)
		c.lastFailureTime(key, time.Time{})
		return 0, c.removeOrphanFinalizers(ctx, ns)
	}
	if err != nil {
		return 0, err
	}
	selector, err := metav1.LabelSelectorAsSelector(j.Spec.Selector)
	if err != nil || selector.Empty() || isManagedElsewhere(j) {
		return 0, nil
	}
	if c.cacheBehind(j) {
		staleSkips.WithLabelValues(batchv1.GroupName, "jobs").Inc()
		return 0, nil // its update event follows
	}
	begin := c.controllerContext.Time()
	settled := c.podControl.Expectations.SatisfiedExpectations(key, c.controllerContext.Time())
	owner := controllerruntime.Owner{Object: j, Kind: kind, Selector: selector}
	pods, err := controllerruntime.Claim[*corev1.Pod](ctx, owner, c.pods, c.controllerContext.PatchPod)
	if err != nil {
		return 0, err
	}
	p := Next(In{Job: j, Pods: c.withoutFinalizerRemoved(pods), ExpectationsMet: settled,
		Failed: c.lastFailureTime(key, time.Time{}), Now: c.controllerContext.Time()})
	c.lastFailureTime(key, p.Failed)
	err = c.do(ctx, owner, p)
	countSync(j, syncAction(&p, settled), c.controllerContext.Time().Sub(begin), err)
	return p.RequeueAfter, err
}

// isManagedElsewhere reports whether a Job names another controller.
func isManagedElsewhere(j *batchv1.Job) bool {
	return j.Spec.ManagedBy != nil && *j.Spec.ManagedBy != batchv1.JobControllerName
}

// withoutFinalizerRemoved returns Pods without the finalizers that were removed, which the cache
// may still show.
func (c *controller) withoutFinalizerRemoved(pods []*corev1.Pod) []*corev1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := slices.Clone(pods)
	for i, p := range out {
		if c.finalizerRemoved[p.UID] && tracked(p) {
			out[i] = p.DeepCopy()
			out[i].Finalizers = slices.DeleteFunc(out[i].Finalizers,
				func(f string) bool { return f == batchv1.JobTrackingFinalizer })
		}
	}
	return out
}

// lastFailureTime returns the time stored for key and replaces it; the zero time deletes it.
func (c *controller) lastFailureTime(key string, failed time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.failed[key]
	delete(c.failed, key)
	if !failed.IsZero() {
		c.failed[key] = failed
	}
	return was
}

// removeOrphanFinalizers removes the finalizer of Pods that no Job will count, so that they can be
// deleted.
func (c *controller) removeOrphanFinalizers(ctx context.Context, ns string) error {
	all, err := c.pods.GetIndexer().ByIndex(cache.NamespaceIndex, ns)
	if err != nil {
		return err
	}
	jobs, err := c.jobs.Jobs(ns).List(labels.Everything())
	if err != nil {
		return err
	}
	for _, raw := range all {
		p := raw.(*corev1.Pod)
		if !uncounted(p, jobs) {
			continue
		}
		if err := c.release(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (c *controller) do(ctx context.Context, o controllerruntime.Owner, p Plan) error {
	j := o.Object.(*batchv1.Job)
	if len(p.Create) > 0 {
		c.podControl.Expectations.SetExpectations(o.Key(), len(p.Create), nil, c.controllerContext.Time())
	}
	creator, reason := c.podControl, creationReason(j, &p)
	creator.Tried = func(err error) { countCreation(reason, err) }
	errCreate := creator.CreatePods(ctx, o, len(p.Create),
		func(i int) *corev1.Pod { return podOf(o, j, p.Create[i]) })
	if errCreate == nil {
		p.Status.Active += int32(len(p.Create))
	}
	errCreate = controllerruntime.IgnoreNamespaceTerminating(errCreate)
	// The reason must be written before Pods are stopped: the next sync would replace them
	// otherwise.
	if err := c.writeStatus(ctx, j, p); err != nil {
		return errors.Join(errCreate, err)
	}
	if len(p.Delete) > 0 {
		c.podControl.Expectations.SetExpectations(o.Key(), 0, p.Delete, c.controllerContext.Time())
	}
	errDelete := c.podControl.DeletePods(ctx, o, p.Delete, "Job "+j.Name+" needs it no more")
	for _, pod := range p.Release {
		if err := c.release(ctx, pod); err != nil {
			return err
		}
		if action, rule, _ := matchPodFailurePolicy(j, pod); rule >= 0 {
			failuresHandled.WithLabelValues(string(action)).Inc()
		}
	}
	return errors.Join(errDelete, errCreate)
}

func (c *controller) writeStatus(ctx context.Context, j *batchv1.Job, p Plan) error {
	if equality.Semantic.DeepEqual(j.Status, p.Status) {
		return nil
	}
	fresh := j.DeepCopy()
	fresh.Status = p.Status
	now, err := c.controllerContext.Client.BatchV1().Jobs(j.Namespace).UpdateStatus(ctx, fresh, metav1.UpdateOptions{})
	if err != nil {
		return controllerruntime.IgnoreNotFound(err)
	}
	c.mu.Lock()
	c.lastWritten[j.UID] = now.ResourceVersion
	c.mu.Unlock()
	countEnds(j, &p)
	for _, say := range p.Finished {
		switch {
		case say.Type == batchv1.JobComplete:
			c.controllerContext.Recorder.Event(j, corev1.EventTypeNormal, "Completed", "Job completed")
		case say.Type == batchv1.JobFailed:
			c.controllerContext.Recorder.Event(j, corev1.EventTypeWarning, say.Reason, say.Message)
		case say.Status == corev1.ConditionTrue:
			c.controllerContext.Recorder.Event(j, corev1.EventTypeNormal, "Suspended", say.Message)
		default:
			c.controllerContext.Recorder.Event(j, corev1.EventTypeNormal, "Resumed", say.Message)
		}
	}
	return nil
}

// release removes the tracking finalizer.
func (c *controller) release(ctx context.Context, p *corev1.Pod) error {
	retained := slices.DeleteFunc(slices.Clone(p.Finalizers),
		func(f string) bool { return f == batchv1.JobTrackingFinalizer })
	body, err := json.Marshal(
		map[string]any{"metadata": map[string]any{"uid": p.UID, "resourceVersion": p.ResourceVersion,
			"finalizers": retained}})
	if err != nil {
		return err
	}
	if _, err = c.controllerContext.Client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, body,
		metav1.PatchOptions{}); err != nil {
		return controllerruntime.IgnoreNotFound(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if raw, there, _ := c.pods.GetStore().GetByKey(p.Namespace + "/" + p.Name); there &&
		raw.(*corev1.Pod).UID == p.UID && tracked(raw.(*corev1.Pod)) {
		c.finalizerRemoved[p.UID] = true // until the update is observed
	}
	return nil
}

// podOf returns a Job's Pod, with the tracking finalizer, and its index as annotation, label, host
// name and environment.
func podOf(o controllerruntime.Owner, j *batchv1.Job, b PodToCreate) *corev1.Pod {
	p := controllerruntime.NewPodFromTemplate(&j.Spec.Template, o)
	p.Finalizers = append(p.Finalizers, batchv1.JobTrackingFinalizer)
	if b.Index < 0 {
		return p
	}
	index := strconv.Itoa(b.Index)
	p.GenerateName = controllerruntime.GeneratePrefix(fmt.Sprintf("%s-%s", j.Name, index))
	metav1.SetMetaDataAnnotation(&p.ObjectMeta, batchv1.JobCompletionIndexAnnotation, index)
	metav1.SetMetaDataLabel(&p.ObjectMeta, batchv1.JobCompletionIndexAnnotation, index)
	if indexedLimits(j) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, batchv1.JobIndexFailureCountAnnotation, strconv.Itoa(b.Failures))
	}
	if p.Spec.Hostname == "" {
		p.Spec.Hostname = fmt.Sprintf("%s-%s", j.Name, index)
	}
	for _, cs := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range cs {
			if !slices.ContainsFunc(cs[i].Env, func(e corev1.EnvVar) bool { return e.Name == "JOB_COMPLETION_INDEX" }) {
				cs[i].Env = append(cs[i].Env,
					corev1.EnvVar{Name: "JOB_COMPLETION_INDEX", ValueFrom: &corev1.EnvVarSource{
						FieldRef: &corev1.ObjectFieldSelector{FieldPath: fmt.Sprintf("metadata.labels['%s']",
							batchv1.JobCompletionIndexAnnotation)}}})
			}
		}
	}
	return p
}
