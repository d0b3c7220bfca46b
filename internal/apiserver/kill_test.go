package apiserver

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// serverProcessDir is the environment variable that makes the test program a server to be killed:
// its data directory. The socket to serve on is its file 3.
const serverProcessDir = "GANTRY_TEST_VICTIM_DIR"

// runServerProcess serves, and prints to its standard output what watchers within the process
// receive, until it is killed.
func runServerProcess(dir string) error {
	l, err := net.FileListener(os.NewFile(3, "socket"))
	if err != nil {
		return err
	}
	c := testConfig(dir)
	c.Listen = Listen{Listener: l}
	c.Access = func(AccessDeps) (*Access, error) { return &Access{Authenticator: byHeader{}}, nil }
	s, _, err := launch(c)
	if err != nil {
		return err
	}
	var out sync.Mutex
	w := watchers(kubernetes.NewForConfigOrDie(s.InProcess(admin())), "in process", func(userName, name string) {
		out.Lock()
		defer out.Unlock()
		fmt.Printf("heard\t%s\t%s\n", userName, name)
	})
	for _, r := range w {
		go r.RunWithContext(context.Background())
	}
	select {}
}

// watchedKinds are kinds that watchers follow, with how to list, watch and make one.
func watchedKinds(c kubernetes.Interface) map[string]watchedKind {
	m := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "default"} }
	core, lease, slice := c.CoreV1(), c.CoordinationV1().Leases("default"), c.DiscoveryV1().EndpointSlices("default")
	maps, accounts, create := core.ConfigMaps("default"), core.ServiceAccounts("default"), metav1.CreateOptions{}
	return map[string]watchedKind{
		"pods": {&corev1.Pod{}, listWatch(core.Pods("").List, core.Pods("").Watch),
			func(ctx context.Context, n string) (err error) {
				_, err = core.Pods("default").Create(ctx, pod(n), create)
				return err
			}},
		"configmaps": {&corev1.ConfigMap{}, listWatch(maps.List, maps.Watch),
			func(ctx context.Context, n string) (err error) {
				_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: m(n)}, create)
				return err
			}},
		"nodes": {&corev1.Node{}, listWatch(core.Nodes().List, core.Nodes().Watch),
			func(ctx context.Context, n string) (err error) {
				_, err = core.Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n}}, create)
				return err
			}},
		"leases": {&coordinationv1.Lease{}, listWatch(lease.List, lease.Watch),
			func(ctx context.Context, n string) (err error) {
				_, err = lease.Create(ctx, &coordinationv1.Lease{ObjectMeta: m(n)}, create)
				return err
			}},
		"endpointslices": {&discoveryv1.EndpointSlice{}, listWatch(slice.List, slice.Watch),
			func(ctx context.Context, n string) (err error) {
				_, err = slice.Create(ctx, &discoveryv1.EndpointSlice{ObjectMeta: m(n), AddressType: "IPv4"}, create)
				return err
			}},
		"serviceaccounts": {&corev1.ServiceAccount{}, listWatch(accounts.List, accounts.Watch),
			func(ctx context.Context, n string) (err error) {
				_, err = accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: m(n)}, create)
				return err
			}},
	}
}

type watchedKind struct {
	example apiruntime.Object
	from    cache.ListerWatcher
	create  func(ctx context.Context, name string) error
}

func listWatch[L apiruntime.Object](
	list func(context.Context, metav1.ListOptions) (L, error),
	follow func(context.Context, metav1.ListOptions) (watch.Interface, error),
) cache.ListerWatcher {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (apiruntime.Object, error) {
			return list(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return follow(ctx, o)
		},
	}
}

// listFirst has a reflector list and then watch, where it would have the list as initial events.
type listFirst struct{ cache.ListerWatcher }

func (listFirst) IsWatchListSemanticsUnSupported() bool { return true }

// watchers are reflectors of all kinds in both ways, which report each object that they receive.
func watchers(c kubernetes.Interface, how string, received func(userName, name string)) (all []*cache.Reflector) {
	for kind, k := range watchedKinds(c) {
		for way, from := range map[string]cache.ListerWatcher{"listed": listFirst{k.from},
			"with initial events": k.from} {
			userName := kind + " " + way + " " + how
			all = append(all, cache.NewReflectorWithOptions(from, k.example, &recordingStore{record: func(o any) {
				if m, err := meta.Accessor(o); err == nil {
					received(userName, m.GetName())
				}
			}}, cache.ReflectorOptions{Name: userName}))
		}
	}
	return all
}

// recordingStore is a reflector's store that keeps nothing.
type recordingStore struct{ record func(o any) }

func (e *recordingStore) Add(o any) error    { e.record(o); return nil }
func (e *recordingStore) Update(o any) error { e.record(o); return nil }
func (e *recordingStore) Delete(any) error   { return nil }
func (e *recordingStore) Resync() error      { return nil }
func (e *recordingStore) Replace(all []any, _ string) error {
	for _, o := range all {
		e.record(o)
	}
	return nil
}

// serverProcess is a server that is killed and started again, on one socket and one data directory.
type serverProcess struct {
	t      *testing.T
	socket *os.File
	dir    string
	log    *os.File
	events func(userName, name string)
	cmd    *exec.Cmd
	exited chan struct{} // closed when its output has ended
}

// newVictim starts a server, which is killed at the test's end, and returns its address.
func newVictim(t *testing.T, received func(userName, name string)) (*serverProcess, net.Addr) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	v := &serverProcess{t: t, socket: socket, dir: t.TempDir(), log: log, events: received}
	v.start()
	t.Cleanup(func() { v.kill() })
	return v, l.Addr()
}

func (v *serverProcess) start() {
	v.t.Helper()
	v.cmd = exec.Command(os.Args[0], "-test.run=^$")
	v.cmd.Env = append(os.Environ(), serverProcessDir+"="+v.dir)
	v.cmd.ExtraFiles, v.cmd.Stderr = []*os.File{v.socket}, v.log
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		v.t.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		v.t.Fatal(err)
	}
	v.exited = make(chan struct{})
	go func() {
		defer close(v.exited)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if f := strings.Split(lines.Text(), "\t"); len(f) == 3 && f[0] == "heard" {
				v.events(f[1], f[2])
			}
		}
	}()
}

func (v *serverProcess) kill() {
	_ = v.cmd.Process.Kill()
	<-v.exited
	_ = v.cmd.Wait()
}

// eventLog records which watcher has received which object, and waits for it.
type eventLog struct {
	mu      sync.Mutex
	changed chan struct{} // closed, and made anew, at each word
	byKind  map[string]map[string]bool
}

func (h *eventLog) record(userName, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byKind[name] == nil {
		h.byKind[name] = map[string]bool{}
	}
	h.byKind[name][userName] = true
	close(h.changed)
	h.changed = make(chan struct{})
}

// waitForWatchers waits until all watchers of a kind have received a name, and names those that
// have not.
func (h *eventLog) waitForWatchers(name string, userName []string, wait time.Duration) (missing []string) {
	for end := time.After(wait); ; {
		h.mu.Lock()
		missing = nil
		for _, w := range userName {
			if !h.byKind[name][w] {
				missing = append(missing, w)
			}
		}
		moved := h.changed
		h.mu.Unlock()
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-moved:
		case <-end:
			return missing
		}
	}
}

// However often the server is killed, on a busy machine, each watcher receives each change: of
// every kind, listed or with initial events, within the process and over HTTPS.
// row: API-10
func TestEveryWatcherResumesAfterAServerKill(t *testing.T) {
	h := &eventLog{changed: make(chan struct{}), byKind: map[string]map[string]bool{}}
	v, at := newVictim(t, h.record)
	log := v.log
	client := overHTTPSTo(at)
	kinds := watchedKinds(client)
	for _, r := range watchers(client, "over HTTPS", h.record) {
		go r.RunWithContext(t.Context())
	}
	beBusy(t)
	for round := range 5 {
		name := fmt.Sprintf("round-%d", round)
		crowd, leave := context.WithCancel(t.Context())
		for kind, k := range kinds {
			written(t, log.Name(), func() error { return k.create(t.Context(), name) })
			join(crowd, client, kind)
		}
		leave() // many watches end at a time
		for kind, k := range kinds {
			written(t, log.Name(), func() error { return k.create(t.Context(), name+"-last") })
			var userName []string
			for _, how := range []string{"in process", "over HTTPS"} {
				userName = append(userName, kind+" listed "+how, kind+" with initial events "+how)
			}
			started := time.Now()
			if missing := h.waitForWatchers(name+"-last", userName, 2*time.Minute); missing != nil {
				message, _ := os.ReadFile(log.Name())
				t.Fatalf("round %d: %s not received by %s\n%s", round, name, strings.Join(missing, ", "), message)
			}
			t.Logf("round %d: all received %s after %s", round, kind, time.Since(started).Round(time.Millisecond))
		}
		v.kill()
		v.start()
	}
}

// beBusy keeps all processors busy until the test ends.
func beBusy(t *testing.T) {
	for range 2 * runtime.GOMAXPROCS(0) {
		go func() {
			for t.Context().Err() == nil {
			}
		}()
	}
}

// written repeats a write until a server takes it.
func written(t *testing.T, log string, write func() error) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := write()
		if err == nil || strings.Contains(err.Error(), "already exists") {
			return
		}
		if time.Now().After(end) {
			message, _ := os.ReadFile(log)
			t.Fatalf("not written: %v\n%s", err, message)
		}
	}
}

// join opens watches from before the server's start, which its caches know nothing of.
func join(ctx context.Context, c kubernetes.Interface, kind string) {
	if kind != "pods" {
		return
	}
	for n := range 40 {
		o := metav1.ListOptions{ResourceVersion: "1", LabelSelector: fmt.Sprintf("n=%d", n)}
		if w, err := c.CoreV1().Pods("").Watch(ctx, o); err == nil {
			context.AfterFunc(ctx, w.Stop)
		}
	}
}
