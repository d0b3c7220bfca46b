package controllerruntime

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gantry-project/gantry/internal/journal"
)

// PodControl creates and deletes Pods of owners, with upstream's events and journal facts. It
// lowers Expectations for failed requests; the caller sets them with SetExpectations beforehand.
type PodControl struct {
	ControllerContext ControllerContext
	Expectations      *Expectations
	Controller        string          // name in the journal
	Tried             func(err error) // told of each attempt to create a Pod, one after the other; may be nil
}

// CreatePods creates the Pods pod(0) … pod(n-1) in batches of 1, 2, 4, … run in parallel, so that a
// template the API server refuses fails once, not n times. It returns the first error of the first
// failing batch; see IgnoreNamespaceTerminating.
func (h PodControl) CreatePods(ctx context.Context, o Owner, n int, pod func(i int) *corev1.Pod) error {
	for done, batch := 0, 1; done < n; batch *= 2 {
		size := min(batch, n-done)
		errs := make([]error, size)
		h.ControllerContext.Each(size, func(i int) { errs[i] = h.createPod(ctx, o, pod(done+i)) })
		done += size
		var first error
		for _, err := range errs {
			if h.Tried != nil {
				h.Tried(err)
			}
			if err != nil {
				h.Expectations.CreationObserved(o.Key(), 1)
			}
			if first == nil {
				first = err
			}
		}
		if first != nil {
			h.Expectations.CreationObserved(o.Key(), n-done)
			return first
		}
	}
	return nil
}

func (h PodControl) createPod(ctx context.Context, o Owner, p *corev1.Pod) error {
	owner := o.Object.(runtime.Object)
	created, err := h.ControllerContext.Client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
	if err != nil {
		if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			h.ControllerContext.Recorder.Eventf(owner, corev1.EventTypeWarning, "FailedCreate", "Error creating: %v",
				err)
		}
		return err
	}
	h.ControllerContext.Recorder.Eventf(owner, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %v",
		created.Name)
	h.recordAction(created, "created the Pod", "for "+o.Object.GetName())
	return nil
}

// DeletePods deletes pods in parallel; why is the reason for the journal. It returns the first
// error; NotFound is not one.
func (h PodControl) DeletePods(ctx context.Context, o Owner, pods []*corev1.Pod, why string) error {
	errs := make([]error, len(pods))
	h.ControllerContext.Each(len(pods), func(i int) { errs[i] = h.deletePod(ctx, o, pods[i], why) })
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (h PodControl) deletePod(ctx context.Context, o Owner, p *corev1.Pod, why string) error {
	owner := o.Object.(runtime.Object)
	err := h.ControllerContext.Client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name,
		metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
	if err == nil {
		h.ControllerContext.Recorder.Eventf(owner, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %v",
			p.Name)
		h.recordAction(p, "deletes the Pod", why)
		return nil
	}
	h.Expectations.DeletionObserved(o.Key(), string(p.UID))
	if apierrors.IsNotFound(err) {
		return nil
	}
	h.ControllerContext.Recorder.Eventf(owner, corev1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
	return err
}

func (h PodControl) recordAction(p *corev1.Pod, action, message string) {
	h.ControllerContext.Journal.Put(journal.Ref{Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)},
		journal.Acted{Controller: h.Controller, Action: action, Message: message})
}
