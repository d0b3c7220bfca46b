package remote

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gantry-project/gantry/internal/journal"
)

type poster struct {
	fail  error
	get   error // result of Get
	posts int
	got   map[string]int
}

func (p *poster) Get(context.Context, string) error { return p.get }

func (p *poster) Post(_ context.Context, path string, body []byte) error {
	p.posts++
	if p.fail != nil {
		return p.fail
	}
	var b struct{ Entries []journal.Entry }
	if err := json.Unmarshal(body, &b); err != nil {
		return err
	}
	p.got[path] += len(b.Entries)
	return nil
}

func TestFactsArriveAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &poster{fail: errors.New("away"), got: map[string]int{}}
		s := New(p, "kubelet", "n1")
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.Run(ctx); close(done) }()
		s.Put(journal.Ref{Namespace: "a", Name: "x"}, journal.Bound{Node: "n1"})
		s.Put(journal.Ref{Namespace: "c", Name: "z"}, journal.Bound{Node: "n1"}) // not lost by the other's failure
		time.Sleep(3 * time.Second)                                              // virtual
		synctest.Wait()
		p.fail = nil
		s.Put(journal.Ref{Namespace: "b", Name: "y"}, journal.Bound{Node: "n1"})
		s.Put(journal.Ref{Kind: "Node", Name: "n1"}, journal.Bound{Node: "n1"}) // it has no namespace
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if len(p.got) != 3 || p.got["/apis/journal.gantry.dev/v1alpha1/namespaces/c/podjournals"] != 1 ||
			p.got["/apis/journal.gantry.dev/v1alpha1/namespaces/a/podjournals"] != 1 ||
			p.got["/apis/journal.gantry.dev/v1alpha1/namespaces/b/podjournals"] != 1 {
			t.Errorf("arrived: %v", p.got)
		}
		stop()
		<-done
	})
}

// An API server without a journal is sent nothing, and Run returns by itself.
func TestAnotherKubernetesIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &poster{get: apierrors.NewNotFound(schema.GroupResource{}, "")}
		s := New(p, "kubelet", "n1")
		s.Put(journal.Ref{Namespace: "a", Name: "x"}, journal.Bound{Node: "n1"})
		returned := false
		go func() { s.Run(t.Context()); returned = true }()
		time.Sleep(time.Minute) // virtual
		synctest.Wait()
		if !returned || p.posts != 0 {
			t.Errorf("after a minute Run has returned: %t, after %d batches; want true and 0", returned, p.posts)
		}
	})
}

// An API server with a journal gets further entries although it refuses some: those of a namespace
// that is gone, or that are not allowed.
func TestARefusalDoesNotEndTheJournal(t *testing.T) {
	for name, refusal := range map[string]error{
		"a namespace that is gone": apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "a"),
		"not allowed":              apierrors.NewForbidden(schema.GroupResource{Resource: "podjournals"}, "batch", nil),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &poster{fail: refusal, got: map[string]int{}}
				s := New(p, "kubelet", "n1")
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { s.Run(ctx); close(done) }()
				s.Put(journal.Ref{Namespace: "a", Name: "x"}, journal.Bound{Node: "n1"})
				time.Sleep(3 * time.Second) // virtual
				synctest.Wait()
				p.fail = nil
				s.Put(journal.Ref{Namespace: "b", Name: "y"}, journal.Bound{Node: "n1"})
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if p.got["/apis/journal.gantry.dev/v1alpha1/namespaces/b/podjournals"] != 1 {
					t.Errorf("arrived: %v", p.got)
				}
				stop()
				<-done
			})
		})
	}
}

func TestWaitingIsBounded(t *testing.T) {
	s := New(&poster{}, "kubelet", "n1")
	for range maxQueued + 10 {
		s.Put(journal.Ref{Namespace: "a", Name: "x"}, journal.Bound{Node: "n1"})
	}
	if len(s.queued) != maxQueued {
		t.Fatalf("%d facts wait, at most %d", len(s.queued), maxQueued)
	}
}
