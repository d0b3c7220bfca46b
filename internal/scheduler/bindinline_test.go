package scheduler

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/scheduler/apiwriter"
	"github.com/gantry-project/gantry/test/expect"
)

// httpCluster is a cluster whose bindings and events come over a connection, as those of `gantry
// scheduler` do.
type httpCluster struct {
	*cluster
	requests atomic.Int32
	refuse   func(n int32, w http.ResponseWriter) bool // answers the nth binding itself

	mu     sync.Mutex
	events map[string][]string // notes by Pod
	ready  chan struct{}       // closed when there is a cluster
}

func startHTTPCluster(t *testing.T, refuse func(n int32, w http.ResponseWriter) bool,
	objects ...runtime.Object) *httpCluster {
	t.Helper()
	w := &httpCluster{refuse: refuse, events: map[string][]string{}, ready: make(chan struct{})}
	s := httptest.NewUnstartedServer(w)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	p := apiwriter.New(&rest.Config{Host: s.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	w.cluster = runOn(t, t.Context(), fake.NewClientset(objects...), func(o *Options) { o.Writer = p })
	close(w.ready)
	return w
}

func (w *httpCluster) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	<-w.ready
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	switch o := obj.(type) {
	case *v1.Binding:
		want := "POST /api/v1/namespaces/default/pods/" + o.Name + "/binding"
		if got := r.Method + " " + r.URL.Path; got != want || o.Target.Kind != "Node" {
			w.t.Errorf("a binding by %s to %+v, want %s to a Node", got, o.Target, want)
		}
		if n := w.requests.Add(1); w.refuse != nil && w.refuse(n, out) {
			return
		}
		gvr := v1.SchemeGroupVersion.WithResource("pods")
		if _, _, err := w.bind(clienttesting.NewCreateSubresourceAction(gvr, o.Name, "binding", o.Namespace, o)); err !=
			nil {
			http.Error(out, err.Error(), http.StatusInternalServerError)
			return
		}
	case *eventsv1.Event:
		w.mu.Lock()
		w.events[o.Regarding.Name] = append(w.events[o.Regarding.Name], o.Reason+" "+o.Note)
		w.mu.Unlock()
	}
	out.WriteHeader(http.StatusCreated)
}

// Bindings that nobody waits for are written all the same, each once, with their events and facts.
//
// row: BND-01
func TestAPIWriterBindingsAreFacts(t *testing.T) {
	t.Parallel()
	const pods = 100
	w := startHTTPCluster(t, nil, aNode("n1", "64"), aNode("n2", "64"))
	for i := range pods {
		w.create(aPod(fmt.Sprintf("p%d", i), "1"))
	}
	for i := range pods {
		name := fmt.Sprintf("p%d", i)
		node := w.bound(name)
		expect.Eventually(t, name+"'s event and fact", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			if len(w.events[name]) == 0 {
				return false
			}
			for _, f := range w.notes.factsOf(name) {
				if b, ok := f.(journal.Bound); ok {
					return b.Node == node &&
						w.events[name][0] == "Scheduled Successfully assigned default/"+name+" to "+node
				}
			}
			return false
		})
	}
	if n := w.requests.Load(); n < pods-10 { // the first wait for a connection
		t.Errorf("%d of %d bindings came over the connection", n, pods)
	}
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	if len(w.bindings) != pods {
		t.Errorf("%d bindings", len(w.bindings))
	}
}

// What the API server refuses is rolled back and tried again; what it asks to be brought later is
// brought in the ordinary way.
//
// row: SCH-09, SCH-13
func TestRefusedAPIWriterBindingsAreRetried(t *testing.T) {
	t.Parallel()
	w := startHTTPCluster(t, func(n int32, out http.ResponseWriter) bool {
		switch n % 3 {
		case 1:
			http.Error(out, "somebody else was quicker", http.StatusConflict)
		case 2:
			out.Header().Set("Retry-After", "1")
			out.WriteHeader(http.StatusTooManyRequests)
		default:
			return false
		}
		return true
	}, aNode("n1", "6"))
	w.create(aPod("first", "1")) // opens the connection
	w.bound("first")
	for i := range 5 {
		w.create(aPod(fmt.Sprintf("p%d", i), "1"))
	}
	failed := 0
	for i := range 5 {
		name := fmt.Sprintf("p%d", i)
		w.bound(name)
		for _, f := range w.notes.factsOf(name) {
			if b, ok := f.(journal.BindFailed); ok && b.Node == "n1" && b.Plugin == "DefaultBinder" &&
				b.Point == "Bind" {
				failed++
			}
		}
	}
	if failed == 0 {
		t.Error("no refusal was written down")
	}
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	if len(w.bindings) != 6 {
		t.Errorf("%d bindings for 6 Pods", len(w.bindings))
	}
}
