package bind

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/scheduler/glue"
	"github.com/gantry-project/gantry/internal/scheduler/post"
)

var (
	bindingKind = v1.SchemeGroupVersion.WithKind("Binding")
	eventKind   = eventsv1.SchemeGroupVersion.WithKind("Event")
)

// Quick writes what every Pod needs, its binding and its event, over a connection made for that. The zero value writes nothing and says so.
type Quick struct {
	post *post.Poster
	host string // this machine, in events
}

// NewQuick writes with a Poster; nil: all is left to the ordinary client.
func NewQuick(p *post.Poster) Quick {
	host, err := os.Hostname()
	if err != nil {
		host = "" // as upstream's recorder has it
	}
	return Quick{p, host}
}

// Close waits for answers still due, until ctx ends.
func (q Quick) Close(ctx context.Context) {
	if q.post != nil {
		q.post.Close(ctx)
	}
}

// Bind writes a binding; post.ErrNotSent when the ordinary client must.
func (q Quick) Bind(ctx context.Context, b *v1.Binding) error {
	if q.post == nil {
		return post.ErrNotSent
	}
	body, err := post.Encode(bindingKind, b)
	if err != nil {
		return err
	}
	a, err := q.post.Post(ctx, bindingPath(b), body)
	if err != nil {
		return err
	}
	if a.Wait() > 0 { // the ordinary client knows how often to try again, and how patiently
		return pause(ctx, a.Wait())
	}
	return a.Err()
}

// Offer writes a binding where a connection is open, and does not wait: then is told how it ended, by a goroutine that must not be held up, and is given post.ErrNotSent when
// the ordinary client must write. False: nothing was done. What is offered leaves with Flush, or sooner.
func (q Quick) Offer(b *v1.Binding, then func(error)) bool {
	if q.post == nil {
		return false
	}
	body, err := post.Encode(bindingKind, b)
	if err != nil {
		return false // Bind says what is wrong
	}
	return q.post.Offer(bindingPath(b), body, func(a post.Answer, err error) {
		switch {
		case err != nil:
		case a.Wait() > 0:
			err = post.ErrNotSent
		default:
			err = a.Err()
		}
		then(err)
	})
}

// Flush lets what was offered leave.
func (q Quick) Flush() {
	if q.post != nil {
		q.post.Flush()
	}
}

func bindingPath(b *v1.Binding) string {
	return "/api/v1/namespaces/" + url.PathEscape(b.Namespace) + "/pods/" + url.PathEscape(b.Name) + "/binding"
}

// pause waits and leaves the call to the ordinary client.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return post.ErrNotSent
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Scheduled records the event of a bound Pod, which comes once in a Pod's life: nothing is there to count up. otherwise records it in the ordinary way, with its patience.
func (q Quick) Scheduled(ctx context.Context, profile string, c glue.Cycle, otherwise func()) {
	if q.post == nil {
		otherwise()
		return
	}
	now, p := time.Now(), c.Pod
	e := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: util.GenerateEventName(p.Name, now.UnixNano()), Namespace: p.Namespace},
		EventTime:  metav1.MicroTime{Time: now}, ReportingController: profile, ReportingInstance: profile + "-" + q.host, Action: "Binding", Reason: "Scheduled",
		Regarding: v1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion},
		Note:      fmt.Sprintf("Successfully assigned %v/%v to %v", p.Namespace, p.Name, c.Node), Type: v1.EventTypeNormal,
	}
	body, err := post.Encode(eventKind, e)
	if err != nil {
		otherwise()
		return
	}
	q.post.Send(ctx, "/apis/events.k8s.io/v1/namespaces/"+url.PathEscape(p.Namespace)+"/events", body, func(a post.Answer, err error) {
		if err != nil || a.Wait() > 0 {
			otherwise()
			return
		}
		if err := a.Err(); err != nil && !apierrors.IsAlreadyExists(err) {
			klog.FromContext(ctx).Error(err, "Server rejected event (will not retry!)", "pod", klog.KObj(p), "reason", e.Reason)
		}
	})
}

// notSent tells whether the ordinary client must write.
func notSent(err error) bool { return errors.Is(err, post.ErrNotSent) }
