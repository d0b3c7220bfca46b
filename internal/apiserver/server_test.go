package apiserver

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/apiserver/store"
	"github.com/gantry-project/gantry/internal/control/bootstrap"
	"github.com/gantry-project/gantry/internal/control/storageversionmigrator"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/test/wrappers"
)

// sharedServer is one server for all tests that do not stop it; each uses namespaces of its own.
var sharedServer struct {
	sync.Once
	server *Server
	notes  *memoryJournal
	err    error
	stop   func()
}

func TestMain(m *testing.M) {
	klog.InitFlags(nil)
	_ = flag.Set("logtostderr", "false")
	_ = flag.Set("stderrthreshold", "FATAL")
	_ = flag.Set("alsologtostderr", "false")
	klog.SetOutput(discard{})
	if dir := os.Getenv(serverProcessDir); dir != "" {
		fmt.Fprintln(os.Stderr, runServerProcess(dir))
		os.Exit(1)
	}
	debug.SetGCPercent(400) // servers make much garbage and keep little
	code := m.Run()
	if sharedServer.stop != nil {
		sharedServer.stop()
	}
	os.Exit(code)
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

func admin() user.Info { return &user.DefaultInfo{Name: "admin", Groups: []string{"system:masters"}} }

// memoryJournal is a journal for tests.
type memoryJournal struct {
	mu      sync.Mutex
	entries []journal.Entry
}

func (n *memoryJournal) Put(ref journal.Ref, f journal.Fact) {
	n.Append([]journal.Entry{{At: time.Now(), Ref: ref, By: "apiserver", Fact: f}})
}

func (n *memoryJournal) Append(list []journal.Entry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.entries = append(n.entries, list...)
}

func (n *memoryJournal) Read(q journal.Query) (out []journal.Entry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.entries {
		if q.Match(&n.entries[i]) {
			out = append(out, n.entries[i])
		}
	}
	return out
}

func testConfig(dir string) Config {
	return Config{
		Listen: Listen{Address: "127.0.0.1", Port: -1}, DataDir: dir,
		Etcd:        store.Options{NoFsync: true, Tick: 10 * time.Millisecond},
		Controllers: controllers(),
	}
}

// controllers are those of internal/app/storecontrollers, which imports this package.
func controllers() []Controller {
	return []Controller{
		{Name: "bootstrap-signer",
			Run: func(ctx context.Context, e ControllerContext) { bootstrap.Run(ctx, e.Client) }},
		{Name: "storage-version-migrator", Run: func(ctx context.Context, e ControllerContext) {
			m := storageversionmigrator.Migrator{Etcd: e.Etcd, Discovery: e.Client.Discovery(),
				Objects: dynamic.NewForConfigOrDie(e.Config), Prefix: KeyPrefix}
			c := storageversionmigrator.Controller{Client: e.Client.StoragemigrationV1().StorageVersionMigrations(),
				Created: e.Migrations, Period: time.Minute, Migrator: &m}
			c.Run(ctx)
		}},
	}
}

// shared is the common server, started by the first test that asks.
func shared(t *testing.T) (*Server, kubernetes.Interface) {
	t.Helper()
	sharedServer.Do(func() {
		dir, err := os.MkdirTemp("", "gantry-apiserver")
		if err != nil {
			sharedServer.err = err
			return
		}
		sharedServer.notes = &memoryJournal{}
		c := testConfig(dir)
		c.Listen.Advertise = netip.MustParseAddr("192.0.2.7")
		c.Features.CBORServingAndStorage = true
		c.Journal = Journal{Sink: sharedServer.notes, Reader: sharedServer.notes, Appender: sharedServer.notes}
		var stop func() error
		sharedServer.server, stop, sharedServer.err = launch(c)
		sharedServer.stop = func() {
			if stop != nil {
				_ = stop()
			}
			os.RemoveAll(dir)
		}
	})
	if sharedServer.err != nil {
		t.Fatal(sharedServer.err)
	}
	return sharedServer.server, kubernetes.NewForConfigOrDie(sharedServer.server.InProcess(admin()))
}

// launch starts a server and returns once it is ready; stop ends it and waits.
func launch(c Config) (s *Server, stop func() error, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	if s, err = New(ctx, c); err != nil {
		cancel()
		return nil, nil, err
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(time.Minute):
			return fmt.Errorf("the server did not stop in a minute")
		}
	}
	select {
	case <-s.Ready():
		return s, stop, nil
	case err := <-done:
		cancel()
		return nil, nil, fmt.Errorf("the server ended before it was ready: %w", err)
	case <-time.After(2 * time.Minute):
		_ = stop()
		return nil, nil, fmt.Errorf("the server was not ready in two minutes")
	}
}

// startServer runs a server of the test's own.
func startServer(t *testing.T, c Config) (*Server, kubernetes.Interface, func()) {
	t.Helper()
	s, stop, err := launch(c)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	end := func() {
		once.Do(func() {
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(end)
	return s, kubernetes.NewForConfigOrDie(s.InProcess(admin())), end
}

// newNamespace makes a namespace for the test.
func newNamespace(t *testing.T, c kubernetes.Interface) string {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	_, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func pod(name string) *corev1.Pod {
	return wrappers.MakePod().Name(name).Container("c", "busybox").Obj()
}

// mustCreate fails the test on an error and passes the value on.
func mustCreate[T any](t *testing.T) func(v T, err error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// logBuffer is a log that tests read.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (p *logBuffer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// A server stops without errors in its log: its own watches end with it.
func TestStopLogsNoErrors(t *testing.T) {
	p := &logBuffer{}
	klog.SetOutput(p)
	defer klog.SetOutput(discard{})
	_, _, end := startServer(t, testConfig(t.TempDir()))
	end()
	klog.Flush()
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range strings.Lines(p.text.String()) {
		if strings.HasPrefix(line, "E") {
			t.Errorf("logged %s", line)
		}
	}
}

// A server that stops ends the watches of in-process clients last: their reflectors, which are
// about to be stopped too, do not begin to ask anew.
func TestInProcessWatchesEndLast(t *testing.T) {
	s, c, end := startServer(t, testConfig(t.TempDir()))
	w, err := c.CoreV1().ConfigMaps("").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	listens := make(chan bool, 1)
	go func() {
		for range w.ResultChan() {
		}
		conn, err := net.Dial("tcp", s.Addr().String())
		if err == nil {
			conn.Close()
		}
		listens <- err == nil
	}()
	end()
	if <-listens {
		t.Error("got the end of a watch while the server listened, want it after that")
	}
}

func TestFirstObjects(t *testing.T) {
	s, c := shared(t)
	for _, ns := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		if _, err := c.CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
	svc := mustCreate[*corev1.Service](t)(c.CoreV1().Services("default").Get(t.Context(),
		"kubernetes", metav1.GetOptions{}))
	if svc.Spec.ClusterIP != "10.96.0.1" {
		t.Errorf("kubernetes has address %s, want the first of the range", svc.Spec.ClusterIP)
	}
	slice, err := c.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil || len(slice.Endpoints) != 1 || slice.Endpoints[0].Addresses[0] != "192.0.2.7" {
		t.Errorf("endpoint slice of kubernetes: %+v, %v", slice, err)
	}
	pc, err := c.SchedulingV1().PriorityClasses().Get(t.Context(), "system-node-critical", metav1.GetOptions{})
	if err != nil || pc.Value != 2000001000 {
		t.Errorf("system-node-critical: got %v, %v, want no error and Value 2000001000", pc, err)
	}
	for _, name := range []string{"exempt", "catch-all", "system-nodes", "global-default"} {
		if _, err := c.FlowcontrolV1().FlowSchemas().Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
	if cidr, err := c.NetworkingV1().ServiceCIDRs().Get(t.Context(), "kubernetes", metav1.GetOptions{}); err != nil ||
		cidr.Spec.CIDRs[0] != "10.96.0.0/16" || len(cidr.Status.Conditions) != 1 {
		t.Errorf("service CIDR: %+v, %v", cidr, err)
	}
	v, err := c.Discovery().ServerVersion()
	if err != nil || v.GitVersion != "v1.37.2" || v.Major != "1" || v.Minor != "37" {
		t.Errorf("version: got %+v, %v, want no error and GitVersion v1.37.2 and Major 1 and Minor 37", v, err)
	}
	_ = s
}
