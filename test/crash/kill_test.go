package crash

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/test/ports"
	"github.com/gantry-project/gantry/test/process"
)

var (
	kills  = flag.Int("kills", 3, "how often the server is killed")
	writes = flag.Int("writes", 2000, "how many writes must be acknowledged in all")
)

const (
	clients = 8
	space   = "default"
	patient = 60 * time.Second
)

// server is one `gantry server` process after the other over the same data.
type server struct {
	t    *testing.T
	args []string
	bin  string
	dir  string
	proc *process.Process // nil: it does not run
}

func newServer(t *testing.T) *server {
	t.Helper()
	dir := os.Getenv("GANTRY_BIN")
	if dir == "" {
		dir = "../../build/bin"
	}
	bin, err := filepath.Abs(filepath.Join(dir, "gantry"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(bin); err != nil {
		t.Skipf("needs %s: run `make build` first", bin)
	}
	port, err := ports.Free()
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	return &server{t: t, bin: bin, dir: data, args: []string{"server", "--data-dir", data, "--bind-address",
		"127.0.0.1", "--advertise-address", "127.0.0.1",
		"--node-name", "crash", "--secure-port", strconv.Itoa(port)}}
}

func (s *server) start() {
	s.t.Helper()
	p, err := process.Start(exec.Command(s.bin, s.args...), filepath.Join(s.dir, "gantry.log"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.proc = p
}

// kill ends the process as a power cut of the process would, and waits for it to be gone.
func (s *server) kill() {
	if s.proc == nil {
		return
	}
	s.proc.Kill()
	s.proc = nil
}

// client waits for the server to be ready.
func (s *server) client(ctx context.Context) *kubernetes.Clientset {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patient)
	defer cancel()
	var c *kubernetes.Clientset
	err := s.proc.Await(ctx, 10*time.Millisecond, func(ctx context.Context) error {
		cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(s.dir, "kubeconfig"))
		if err != nil {
			return err
		}
		cfg.QPS, cfg.Timeout = -1, 0
		c = kubernetes.NewForConfigOrDie(cfg)
		_, err = c.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	})
	if err != nil {
		s.t.Fatalf("the server is not ready: %v, want no error", err)
	}
	return c
}

// createdObject is what the server said it wrote.
type createdObject struct {
	uid      types.UID
	revision string
}

// ackedWrites is what was acknowledged, by number of the write.
type ackedWrites struct {
	mu    sync.Mutex
	acked map[string]createdObject
}

func (l *ackedWrites) add(n string, m createdObject) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[n] = m
	return len(l.acked)
}

// watcher follows the objects and resumes where it was. Its error is of an event lost, repeated or
// out of order.
type watcher struct {
	client kubernetes.Interface
	mu     sync.Mutex
	added  map[types.UID]bool
	last   uint64
	err    error
}

func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		stream, err := w.client.CoreV1().ConfigMaps(space).Watch(ctx,
			metav1.ListOptions{ResourceVersion: fmt.Sprint(w.last), LabelSelector: "crash", AllowWatchBookmarks: true})
		if err != nil {
			select { // the server is away
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		for e := range stream.ResultChan() {
			if w.take(e); w.err != nil {
				stream.Stop()
				return
			}
		}
	}
}

func (w *watcher) take(e watch.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o, ok := e.Object.(*corev1.ConfigMap)
	if !ok {
		if s, is := e.Object.(*metav1.Status); is && s.Code >= 500 {
			return // the server was on its way out
		}
		w.err = fmt.Errorf("the watch said %s: %v", e.Type, e.Object)
		return
	}
	revision, err := strconv.ParseUint(o.ResourceVersion, 10, 64)
	switch {
	case err != nil:
		w.err = err
	case e.Type == watch.Bookmark:
		w.last = max(w.last, revision)
	case e.Type != watch.Added:
		w.err = fmt.Errorf("%s of %s, which nobody changed", e.Type, o.Name)
	case w.added[o.UID]:
		w.err = fmt.Errorf("%s was received twice", o.Name)
	case revision <= w.last:
		w.err = fmt.Errorf("%s at revision %d came after revision %d", o.Name, revision, w.last)
	default:
		w.added[o.UID], w.last = true, revision
	}
}

func (w *watcher) addedCount() (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.added), w.err
}

// Every acknowledged write is there after the server was killed in the middle of writes, none is
// there twice, and a watcher that resumes misses no event and gets none twice.
// row: API-10
func TestKilledInTheMiddleOfWrites(t *testing.T) {
	s := newServer(t)
	s.start()
	t.Cleanup(func() { s.kill() })
	client := s.client(t.Context())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	list, err := client.CoreV1().ConfigMaps(space).List(ctx, metav1.ListOptions{LabelSelector: "crash"})
	if err != nil {
		t.Fatal(err)
	}
	from, err := strconv.ParseUint(list.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{client: client, added: map[types.UID]bool{}, last: from}
	go w.run(ctx)

	l := &ackedWrites{acked: map[string]createdObject{}}
	reached := make(chan int, *writes) // never blocks: one entry for each acknowledged write at most
	next, group := atomic.Int64{}, sync.WaitGroup{}
	writing, enough := context.WithCancel(ctx)
	defer enough()
	for range clients {
		group.Go(func() {
			for writing.Err() == nil {
				n := strconv.FormatInt(next.Add(1), 10)
				o, err := client.CoreV1().ConfigMaps(space).Create(writing, &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{GenerateName: "crash-", Labels: map[string]string{"crash": n}},
				}, metav1.CreateOptions{})
				if err != nil {
					select { // what became of it is unknown; another number is next
					case <-time.After(5 * time.Millisecond):
					case <-writing.Done():
					}
					continue
				}
				if done := l.add(n, createdObject{o.UID, o.ResourceVersion}); done <= *writes {
					reached <- done
				}
			}
		})
	}
	killed := 0
	for done := range reached {
		if killed < *kills && done >= *writes*(killed+1)/(*kills+1) {
			s.kill()
			s.start()
			killed++
		}
		if done >= *writes {
			break
		}
	}
	enough()
	group.Wait()
	s.client(ctx)
	t.Logf("%d writes acknowledged, %d tried, %d kills", len(l.acked), next.Load(), killed)
	compare(t, client, l, w)
}

// compare holds what is there against what was acknowledged and what the watcher received.
func compare(t *testing.T, client kubernetes.Interface, l *ackedWrites, w *watcher) {
	t.Helper()
	list := settledList(t, client, w)
	there := map[string]createdObject{}
	for _, o := range list.Items {
		n := o.Labels["crash"]
		if _, twice := there[n]; twice {
			t.Errorf("write %s is there twice", n)
		}
		there[n] = createdObject{o.UID, o.ResourceVersion}
	}
	for n, m := range l.acked {
		if there[n] != m {
			t.Errorf("write %s was acknowledged as %v and is there as %v", n, m, there[n])
		}
	}
	expect.Poll(t, 10*time.Millisecond, patient, "the watcher receives every object", func() error {
		received, err := w.addedCount()
		expect.NoError(t, err)
		if received > len(list.Items) {
			t.Fatalf("the watcher received %d objects, there are %d", received, len(list.Items))
		}
		if received < len(list.Items) {
			return fmt.Errorf("got %d objects, want %d", received, len(list.Items))
		}
		return nil
	})
	for _, o := range list.Items {
		if !w.added[o.UID] {
			t.Errorf("the watcher never received %s", o.Name)
		}
	}
}

// settledList lists until the watcher has received as many objects, or patience ends: a write
// whose client left before the answer may be stored after the first list.
func settledList(t *testing.T, client kubernetes.Interface, w *watcher) *corev1.ConfigMapList {
	t.Helper()
	for end := time.Now().Add(patient); ; time.Sleep(10 * time.Millisecond) {
		list, err := client.CoreV1().ConfigMaps(space).List(t.Context(), metav1.ListOptions{LabelSelector: "crash"})
		if err != nil {
			t.Fatal(err)
		}
		seen, err := w.addedCount()
		if err != nil {
			t.Fatal(err)
		}
		if seen == len(list.Items) || time.Now().After(end) {
			return list
		}
	}
}
