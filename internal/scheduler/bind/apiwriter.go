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

// APIWriter makes the writes that many Pods need over a connection made for that: bindings,
// statuses, deletions of victims, and the events of Pods that were bound or made to leave. The zero
// value writes nothing and says so, or leaves it to the ordinary client where it is given one.
type APIWriter struct {
	writer *apiwriter.Writer
	host   string // this machine, in events
}

// NewAPIWriter writes with a Poster; nil: all is left to the ordinary client.
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

// Bind writes a binding; apiwriter.ErrNotSent when the ordinary client must.
func (q APIWriter) Bind(ctx context.Context, b *v1.Binding) error {
	body, err := apiwriter.Encode(bindingKind, b)
	if err != nil {
		return err
	}
	return q.do(ctx, apiwriter.Request{Method: http.MethodPost, Path: bindingPath(b), Body: body})
}

// PatchStatus patches the status of a Pod (strategic merge).
func (q APIWriter) PatchStatus(ctx context.Context, otherwise kubernetes.Interface, p *v1.Pod, patch []byte) error {
	err := q.do(ctx, apiwriter.Request{Method: http.MethodPatch, Path: podPath(p.Namespace, p.Name) + "/status",
		Type: string(types.StrategicMergePatchType), Body: patch})
	if isOutcomeUnknown(err) {
		_, err = otherwise.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch,
			metav1.PatchOptions{}, "status")
	}
	return err
}

// DeletePod deletes a Pod, and none that was made anew under its name.
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

// do makes a request; apiwriter.ErrNotSent when the ordinary client must.
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

// QueueBinding writes a binding where a connection is open, and does not wait: then is told how it
// ended, by a goroutine that must not be held up, and is given apiwriter.ErrNotSent when the
// ordinary client must write. False: nothing was done. What is offered leaves with Flush, or
// sooner.
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

// Flush lets what was offered leave.
func (q APIWriter) Flush() {
	if q.writer != nil {
		q.writer.Flush()
	}
}

func bindingPath(b *v1.Binding) string { return podPath(b.Namespace, b.Name) + "/binding" }

func podPath(namespace, name string) string {
	return "/api/v1/namespaces/" + url.PathEscape(namespace) + "/pods/" + url.PathEscape(name)
}

// pause waits and leaves the call to the ordinary client.
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

// ScheduledEvent records the event of a bound Pod, which comes once in a Pod's life: nothing is
// there to count up. otherwise records it in the ordinary way, with its patience.
func (q APIWriter) ScheduledEvent(ctx context.Context, profile string, c frameworkruntime.PodCycle, otherwise func()) {
	q.createEvent(ctx, &eventsv1.Event{
		ReportingController: profile, Action: "Binding", Reason: "Scheduled", Regarding: objectReferenceOf(c.Pod),
		Note: fmt.Sprintf("Successfully assigned %v/%v to %v", c.Pod.Namespace, c.Pod.Name, c.Node),
	}, otherwise)
}

// PreemptedEvent records the event of a victim, which comes once in its life too. Its words are the
// caller's.
func (q APIWriter) PreemptedEvent(ctx context.Context, e *eventsv1.Event, otherwise func()) {
	e.Action, e.Reason = "Preempting", "Preempted"
	q.createEvent(ctx, e, otherwise)
}

func objectReferenceOf(p *v1.Pod) v1.ObjectReference {
	return v1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: p.Namespace, Name: p.Name, UID: p.UID,
		ResourceVersion: p.ResourceVersion}
}

// createEvent completes an ordinary event and records it.
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

// isNotSent tells whether the ordinary client must write.
func isNotSent(err error) bool { return errors.Is(err, apiwriter.ErrNotSent) }
