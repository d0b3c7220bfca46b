package gather

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/journal/remote"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/trace"
)

// ErrNoJournal says that an API server keeps no journal: it is not Gantry's.
var ErrNoJournal = remote.ErrNoJournal

// noJournal says what is not known without one.
const noJournal = "this API server keeps no journal: what the scheduler weighed, how probes and hooks answered and " +
	"how calls to the runtime ended is known only as far as status, events and leases tell it"

// ReadJournal asks the API server for the entries of one Pod, oldest first.
func ReadJournal(ctx context.Context, c kubernetes.Interface, namespace, name string) ([]journal.Entry, error) {
	return remote.Read(ctx, c, namespace, name)
}

// FindPod returns the Pod, nil when there is none of that name.
func FindPod(ctx context.Context, c kubernetes.Interface, namespace, name string) (*corev1.Pod, error) {
	p, err := c.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return p, err
}

// PodTraces reads the lives of the Pods that have or had a name, oldest first; none is an error.
func PodTraces(ctx context.Context, e *cli.Inspector, arg string) ([]trace.PodTrace, error) {
	name, err := cli.PodName(arg)
	if err != nil {
		return nil, err
	}
	client, err := e.NewClient()
	if err != nil {
		return nil, err
	}
	return PodTracesWith(ctx, client, e.Namespace, name)
}

// PodTracesWith is PodTraces over a client.
func PodTracesWith(ctx context.Context, client kubernetes.Interface, namespace, name string) ([]trace.PodTrace,
	error) {
	entries, err := ReadJournal(ctx, client, namespace, name)
	if errors.Is(err, ErrNoJournal) {
		return nil, cli.WithFix(err, "trace needs Gantry's journal; `gantry why` also works on any Kubernetes")
	}
	if err != nil {
		return nil, err
	}
	podTraces := trace.PodTraces(entries)
	if len(podTraces) == 0 {
		return nil, cli.WithFix(fmt.Errorf("the journal holds nothing about pod %s in namespace %s", name, namespace),
			"check name and namespace (-n); the journal keeps the newest entries only")
	}
	return podTraces, nil
}

// readJournalFacts reads the journal of a Pod's life. Roles of their own send their facts in
// batches: those of a Pod that was just placed are waited for, two seconds at most.
func readJournalFacts(ctx context.Context, r *reader, in *explain.In) error {
	deadline := time.Now().Add(2 * time.Second)
	for {
		entries, err := ReadJournal(ctx, r.client, in.Ref.Namespace, in.Ref.Name)
		if errors.Is(err, ErrNoJournal) {
			r.note(noJournal)
			in.NoJournal = true
			return nil
		}
		if apierrors.IsForbidden(err) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, l := range trace.PodTraces(entries) {
			if in.Pod == nil || l.Ref.UID == string(in.Pod.UID) {
				in.Entries, in.Ref.UID = l.Entries, l.Ref.UID
				in.Entries = slices.DeleteFunc(in.Entries, func(e journal.Entry) bool { return e.At.Before(r.after) })
			}
		}
		if time.Now().After(deadline) || !justScheduled(in) {
			return nil
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// justScheduled tells of a Pod that a scheduler placed, or took away for another one, within the
// last seconds, and whose result is not in the journal yet.
func justScheduled(in *explain.In) bool {
	var ruled, preempted bool
	var taken time.Time // when the scheduler deleted it
	for _, e := range in.Entries {
		switch f := e.Fact.(type) {
		case journal.Ruled:
			ruled = true
		case journal.Preempted:
			preempted = true
		case journal.Deleting:
			if f.User == user.KubeScheduler {
				taken = e.At
			}
		}
	}
	if !taken.IsZero() {
		return !preempted && in.Now.Sub(taken) < 5*time.Second
	}
	if ruled || in.Pod == nil || in.Pod.Spec.NodeName == "" {
		return false
	}
	c := pod.Condition(in.Pod, corev1.PodScheduled)
	return c != nil && in.Now.Sub(c.LastTransitionTime.Time) < 5*time.Second
}
