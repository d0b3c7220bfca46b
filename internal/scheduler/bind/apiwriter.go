package bind

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/scheduler/apiwriter"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
)

var (
	bindingKind = v1.SchemeGroupVersion.WithKind("Binding")
	optionsKind = v1.SchemeGroupVersion.WithKind("DeleteOptions")
	eventKind   = eventsv1.SchemeGroupVersion.WithKind("Event")
)

// APIWriter makes the writes that many Pods need over one connection (package apiwriter): bindings,
// statuses, deletions of victims, and the Events of Pods that were bound or preempted. The zero
// value leaves each write to the ordinary client, or returns apiwriter.ErrNotSent where it is not
// given one. Any goroutine may call it.
type APIWriter struct {
	writer *apiwriter.Writer
	host   string // this machine, in events
}

// NewAPIWriter writes with p; nil: everything is left to the ordinary client.
func NewAPIWriter(p *apiwriter.Writer) APIWriter {
	host, err := os.Hostname()
	if err != nil {
		host = "" // as upstream's recorder has it
	}
	return APIWriter{p, host}
}

// Close waits for answers still due, until ctx ends.
func (q APIWriter) Close(ctx context.Context) {
	if q.writer != nil {
		q.writer.Close(ctx)
	}
}

// Bind posts a binding and waits; apiwriter.ErrNotSent when the ordinary client must post it.
func (q APIWriter) Bind(ctx context.Context, b *v1.Binding) error {
	body, err := apiwriter.Encode(bindingKind, b)
	if err != nil {
		return err
	}
	return q.do(ctx, apiwriter.Request{Method: http.MethodPost, Path: bindingPath(b), Body: body})
}

// PatchStatus patches a Pod's status (strategic merge) and waits. What is not sent, or may not have
// been taken, otherwise patches.
func (q APIWriter) PatchStatus(ctx context.Context, otherwise kubernetes.Interface, p *v1.Pod, patch []byte) error {
	err := q.do(ctx, apiwriter.Request{Method: http.MethodPatch, Path: podPath(p.Namespace, p.Name) + "/status",
		Type: string(types.StrategicMergePatchType), Body: patch})
	if isOutcomeUnknown(err) {
		_, err = otherwise.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch,
			metav1.PatchOptions{}, "status")
	}
	return err
}

// DeletePod deletes a Pod, by its UID, and waits. What is not sent, or may not have been taken,
// otherwise deletes.
func (q APIWriter) DeletePod(ctx context.Context, otherwise kubernetes.Interface, p *v1.Pod) error {
	o := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))}
	body, err := apiwriter.Encode(optionsKind, &o)
	if err != nil {
		return err
	}
	err = q.do(ctx, apiwriter.Request{Method: http.MethodDelete, Path: podPath(p.Namespace, p.Name), Body: body})
	if isOutcomeUnknown(err) {
		err = otherwise.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, o)
	}
	return err
}

// do makes a request and waits; apiwriter.ErrNotSent when the ordinary client must make it.
func (q APIWriter) do(ctx context.Context, r apiwriter.Request) error {
	if q.writer == nil {
		return apiwriter.ErrNotSent
	}
	a, err := q.writer.Do(ctx, r)
	if err != nil {
		return err
	}
	if a.RetryDelay() > 0 { // the ordinary client knows how often to try again, and how patiently
		return pause(ctx, a.RetryDelay())
	}
	return a.Err()
}

// QueueBinding posts a binding with the next Flush, or sooner, and does not wait. then is called
// with how it ended, by a goroutine that it must not hold up; apiwriter.ErrNotSent means that the
// ordinary client must post it. False: no connection is open and nothing was done.
func (q APIWriter) QueueBinding(b *v1.Binding, then func(error)) bool {
	if q.writer == nil {
		return false
	}
	body, err := apiwriter.Encode(bindingKind, b)
	if err != nil {
		return false // Bind says what is wrong
	}
	return q.writer.Queue(bindingPath(b), body, func(a apiwriter.Response, err error) {
		switch {
		case err != nil:
		case a.RetryDelay() > 0:
			err = apiwriter.ErrNotSent
		default:
			err = a.Err()
		}
		then(err)
	})
}

// Flush writes the bindings of QueueBinding.
func (q APIWriter) Flush() {
	if q.writer != nil {
		q.writer.Flush()
	}
}

func bindingPath(b *v1.Binding) string { return podPath(b.Namespace, b.Name) + "/binding" }

func podPath(namespace, name string) string {
	return "/api/v1/namespaces/" + url.PathEscape(namespace) + "/pods/" + url.PathEscape(name)
}

// pause waits for d and then leaves the call to the ordinary client.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return apiwriter.ErrNotSent
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ScheduledEvent records the Event of a bound Pod and does not wait. It comes once in a Pod's life,
// so no series is counted up. otherwise records it with the ordinary recorder and its retries.
func (q APIWriter) ScheduledEvent(ctx context.Context, profile string, c frameworkruntime.PodCycle, otherwise func()) {
	q.createEvent(ctx, &eventsv1.Event{
		ReportingController: profile, Action: "Binding", Reason: "Scheduled", Regarding: objectReferenceOf(c.Pod),
		Note: fmt.Sprintf("Successfully assigned %v/%v to %v", c.Pod.Namespace, c.Pod.Name, c.Node),
	}, otherwise)
}

// PreemptedEvent records the Event of a victim, which comes once in a Pod's life too; e has all but
// action and reason.
func (q APIWriter) PreemptedEvent(ctx context.Context, e *eventsv1.Event, otherwise func()) {
	e.Action, e.Reason = "Preempting", "Preempted"
	q.createEvent(ctx, e, otherwise)
}

func objectReferenceOf(p *v1.Pod) v1.ObjectReference {
	return v1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: p.Namespace, Name: p.Name, UID: p.UID,
		ResourceVersion: p.ResourceVersion}
}

// createEvent fills in what all Events share and posts it; otherwise is called when that cannot be
// done.
func (q APIWriter) createEvent(ctx context.Context, e *eventsv1.Event, otherwise func()) {
	if q.writer == nil {
		otherwise()
		return
	}
	now, p := time.Now(), e.Regarding
	e.ObjectMeta = metav1.ObjectMeta{Name: util.GenerateEventName(p.Name, now.UnixNano()), Namespace: p.Namespace}
	e.EventTime, e.ReportingInstance, e.Type = metav1.MicroTime{Time: now}, e.ReportingController+"-"+q.host,
		v1.EventTypeNormal
	body, err := apiwriter.Encode(eventKind, e)
	if err != nil {
		otherwise()
		return
	}
	q.writer.CreateAsync(ctx, "/apis/events.k8s.io/v1/namespaces/"+url.PathEscape(p.Namespace)+"/events", body,
		func(a apiwriter.Response, err error) {
			if err != nil || a.RetryDelay() > 0 {
				otherwise()
				return
			}
			if err := a.Err(); err != nil && !apierrors.IsAlreadyExists(err) {
				klog.FromContext(ctx).Error(err, "Server rejected event (will not retry!)",
					"pod", klog.KRef(p.Namespace, p.Name), "reason", e.Reason)
			}
		})
}

// isOutcomeUnknown tells whether the ordinary client must make a write that may be made twice.
func isOutcomeUnknown(err error) bool { return isNotSent(err) || errors.Is(err, apiwriter.ErrLost) }

// isNotSent tells whether the ordinary client must make the write.
func isNotSent(err error) bool { return errors.Is(err, apiwriter.ErrNotSent) }
