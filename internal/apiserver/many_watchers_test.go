package apiserver

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
)

// overHTTPS is an administrator's client of a server that believes byHeader, with a connection of
// its own.
func overHTTPS(s *Server) kubernetes.Interface { return overHTTPSTo(s.Addr()) }

func overHTTPSTo(at net.Addr) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(rootTo(at))
}

// rootTo is the configuration of a client of the server at the address, as root.
func rootTo(at net.Addr) *restclient.Config {
	cfg := &restclient.Config{
		Host: "https://" + at.String(), QPS: -1, Dial: (&net.Dialer{}).DialContext,
		TLSClientConfig: restclient.TLSClientConfig{Insecure: true},
	}
	cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			req = req.Clone(req.Context())
			req.Header.Set("X-Test-User", "root")
			req.Header.Set("X-Test-Groups", "system:masters")
			return rt.RoundTrip(req)
		})
	})
	return cfg
}

// testWatcher follows ConfigMaps of a namespace and goes on from what it saw last when it is cut
// off.
type testWatcher struct {
	client   kubernetes.Interface
	space    string
	last     int64 // revision
	marked   bool  // the bookmark after the initial events came
	observed map[string]bool
}

func (m *testWatcher) options() metav1.ListOptions {
	if m.marked {
		return metav1.ListOptions{AllowWatchBookmarks: true, ResourceVersion: fmt.Sprint(m.last)}
	}
	return metav1.ListOptions{AllowWatchBookmarks: true, SendInitialEvents: new(true),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}
}

// follow takes events until n objects were seen; onBookmark is called at the bookmark.
func (m *testWatcher) follow(ctx context.Context, n int, onBookmark func()) error {
	for len(m.observed) < n {
		if !m.marked {
			clear(m.observed) // the initial events begin anew
		}
		w, err := m.client.CoreV1().ConfigMaps(m.space).Watch(ctx, m.options())
		if err != nil {
			return err
		}
		for e := range w.ResultChan() {
			if err := m.take(e, onBookmark); err != nil {
				return err
			}
			if len(m.observed) == n {
				break
			}
		}
		w.Stop()
	}
	return nil
}

func (m *testWatcher) take(e watch.Event, onBookmark func()) error {
	o, ok := e.Object.(*corev1.ConfigMap)
	if !ok {
		return fmt.Errorf("%s %v", e.Type, e.Object)
	}
	revision, err := strconv.ParseInt(o.ResourceVersion, 10, 64)
	switch {
	case err != nil:
		return err
	case e.Type == watch.Bookmark && revision < m.last:
		return fmt.Errorf("a bookmark of %d after an event of %d", revision, m.last)
	case e.Type == watch.Bookmark:
		m.last = revision
		if !m.marked && o.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
			m.marked = true
			onBookmark()
		}
		return nil
	case e.Type != watch.Added || m.observed[o.Name]:
		return fmt.Errorf("%s of %s, seen before: %t", e.Type, o.Name, m.observed[o.Name])
	case m.marked && revision <= m.last:
		return fmt.Errorf("%s of revision %d after revision %d", o.Name, revision, m.last)
	}
	m.observed[o.Name], m.last = true, max(m.last, revision)
	return nil
}

// A hundred watchers over HTTPS get what there is, the bookmark that ends it, and then every write
// once and in the order of revisions, though writes come in bursts and events leave together.
// row: API-17
func TestHundredWatchersOverHTTPS(t *testing.T) {
	const watchers, perConnection, before, writers, each = 100, 25, 5, 20, 10
	config := testConfig(t.TempDir())
	config.Access = func(AccessDeps) (*Access, error) { return &Access{Authenticator: byHeader{}}, nil }
	s, c, _ := startServer(t, config)
	ns := newNamespace(t, c)
	create := func(ctx context.Context, name string) error {
		_, err := c.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{})
		return err
	}
	for n := range before {
		if err := create(t.Context(), fmt.Sprint("before-", n)); err != nil {
			t.Fatal(err)
		}
	}
	group, ctx := errgroup.WithContext(t.Context())
	var ready sync.WaitGroup
	ready.Add(watchers)
	var client kubernetes.Interface
	for n := range watchers {
		if n%perConnection == 0 {
			client = overHTTPS(s)
		}
		m := &testWatcher{client: client, space: ns, observed: map[string]bool{}}
		group.Go(func() error {
			onBookmark := sync.OnceFunc(ready.Done)
			defer onBookmark()
			if err := m.follow(ctx, before+writers*each, onBookmark); err != nil {
				return fmt.Errorf("watcher %d: %w", n, err)
			}
			if !m.marked {
				return fmt.Errorf("watcher %d saw no end of the initial events", n)
			}
			return nil
		})
	}
	ready.Wait()
	for w := range writers {
		group.Go(func() error {
			for n := range each {
				if err := create(ctx, fmt.Sprintf("w-%d-%d", w, n)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}
