package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/dashboard/blocks"
)

// How often changes are sent, and how soon a failed list is tried again.
const (
	batchEvery = 50 * time.Millisecond
	retryAfter = 2 * time.Second
	aliveEvery = 15 * time.Second
)

// streamNow sends nodes and Pods, then what changes of them, as server-sent events, until the
// client leaves. What is forbidden is sent as such, and tried again.
func (s *Server) streamNow(w http.ResponseWriter, r *http.Request, who Identity) {
	cfg, _, err := s.client(who)
	if err != nil {
		answerError(w, err)
		return
	}
	client, err := compact(cfg)
	if err != nil {
		answerError(w, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := newChanges()
	core := client.CoreV1().RESTClient()
	namespace := r.URL.Query().Get("namespace")
	if bad := content.IsPathSegmentName(namespace); len(bad) > 0 {
		answerError(w, cli.UsageError(fmt.Errorf("%q is no namespace: %s", namespace, strings.Join(bad, ", "))))
		return
	}
	go watch(ctx, core, watched{"nodes", "", &corev1.Node{}, func(o any) (string, any) {
		n := o.(*corev1.Node)
		return n.Name, blocks.OfNode(n)
	}}, out)
	go watch(ctx, core, watched{"pods", namespace, &corev1.Pod{}, func(o any) (string, any) {
		p := o.(*corev1.Pod)
		return string(p.UID), blocks.OfPod(p)
	}}, out)
	go measure(ctx, client, out)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	send(ctx, w, out)
}

// compact returns a client that asks for protobuf, which thousands of Pods take a fraction of the
// time to come in.
func compact(cfg *rest.Config) (kubernetes.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return kubernetes.NewForConfig(cfg)
}

// send writes batches of changes until ctx ends or the client is gone: a change that comes alone at
// once, of a burst as much as came since the last batch, batchEvery later.
func send(ctx context.Context, w http.ResponseWriter, out *changes) {
	flush := http.NewResponseController(w)
	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	write := func(event string, data any) error {
		raw, err := json.Marshal(data)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, raw)
		return err
	}
	if err := write("hello", map[string]any{"now": time.Now()}); err != nil || flush.Flush() != nil {
		return
	}
	var sent time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-alive.C:
			if err := write("alive", map[string]any{"now": time.Now()}); err != nil {
				return
			}
		case <-out.wake:
			select { // more of the same burst
			case <-time.After(batchEvery - time.Since(sent)):
			case <-ctx.Done():
				return
			}
			sent = time.Now()
			for _, b := range out.take() {
				if write(b.event, b.data) != nil {
					return
				}
			}
		}
		if flush.Flush() != nil {
			return
		}
	}
}

// watched is one resource that is followed.
type watched struct {
	resource, namespace string
	proto               any
	item                func(object any) (key string, shown any)
}

// watch lists and watches until ctx ends, and puts what it sees into out.
func watch(ctx context.Context, client rest.Interface, what watched, out *changes) {
	lw := cache.NewListWatchFromClient(client, what.resource, what.namespace, fields.Everything())
	logged := "dashboard " + what.resource
	for ctx.Err() == nil {
		err := cache.NewReflectorWithOptions(lw, what.proto, &sink{what, out},
			cache.ReflectorOptions{Name: logged}).ListAndWatchWithContext(ctx)
		wait := batchEvery // the watch ended by itself
		if err != nil && ctx.Err() == nil && !apierrors.IsResourceExpired(err) {
			out.deny(what.resource, failure{Error: err.Error(), Forbidden: apierrors.IsForbidden(err)})
			wait = retryAfter
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

// sink is the reflector's store: it keeps nothing and passes changes on.
type sink struct {
	watched
	out *changes
}

func (s *sink) Add(o any) error {
	key, shown := s.item(o)
	s.out.set(s.resource, key, shown)
	return nil
}

func (s *sink) Update(o any) error { return s.Add(o) }

func (s *sink) Delete(o any) error {
	key, _ := s.item(o)
	s.out.set(s.resource, key, nil)
	return nil
}

func (s *sink) Replace(all []any, _ string) error {
	items := make(map[string]any, len(all))
	for _, o := range all {
		key, shown := s.item(o)
		items[key] = shown
	}
	s.out.replace(s.resource, items)
	return nil
}

func (s *sink) Resync() error { return nil }

// usageEvery is how often nodes are asked what is used.
const usageEvery = 5 * time.Second

// maxMeasured bounds the nodes that are asked.
const maxMeasured = 64

// usage is what a node or Pod uses: milli-cores and bytes.
type usage struct {
	CPU    int64 `json:"c"`
	Memory int64 `json:"m"`
}

// used is what is used now; Pods by namespace/name.
type used struct {
	Nodes map[string]usage `json:"nodes"`
	Pods  map[string]usage `json:"pods"`
}

// measure asks the kubelets for usage until ctx ends. Who may not is told so.
func measure(ctx context.Context, client kubernetes.Interface, out *changes) {
	tick := time.NewTicker(usageEvery)
	defer tick.Stop()
	for {
		if u, err := readUsage(ctx, client); err == nil {
			out.put("usage", u)
		} else if ctx.Err() == nil {
			out.deny("usage", failure{Error: err.Error(), Forbidden: apierrors.IsForbidden(err)})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// askedAtOnce is how many kubelets are asked at the same time.
const askedAtOnce = 8

// readUsage asks the kubelets of maxMeasured nodes; a node that does not answer is left out. An
// error is the refusal of the API server to a person who may not ask.
func readUsage(ctx context.Context, client kubernetes.Interface) (used, error) {
	out := used{map[string]usage{}, map[string]usage{}}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0", Limit: maxMeasured})
	if err != nil {
		return out, err
	}
	var mu sync.Mutex
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(askedAtOnce)
	for _, n := range nodes.Items[:min(len(nodes.Items), maxMeasured)] {
		all.Go(func() error {
			one, cancel := context.WithTimeout(ctx, usageEvery)
			defer cancel()
			raw, err := client.CoreV1().RESTClient().Get().Resource("nodes").Name(n.Name).SubResource("proxy").
				Suffix("stats", "summary").Param("only_cpu_and_memory", "true").DoRaw(one)
			if apierrors.IsForbidden(err) {
				return err
			}
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				out.add(n.Name, raw)
			}
			return nil
		})
	}
	return out, all.Wait()
}
