package lifecycle

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"k8s.io/client-go/kubernetes"
	internalapi "k8s.io/cri-api/pkg/apis"

	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/test/binaries"
	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/instance"
	"github.com/gantry-project/gantry/testcluster"
)

const (
	busybox = "docker.io/library/busybox:1.28"
	agnhost = "registry.k8s.io/e2e-test-images/agnhost:2.63"
)

// kubeletConfig keeps images on a full disk: imported ones could not be pulled again.
const kubeletConfig = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: " +
	"KubeletConfiguration\nimageGCHighThresholdPercent: 100\nhealthzPort: 0\n"

// runtimeUnderTest is a cluster of one node, and the ways to its runtime that go past the kubelet.
type runtimeUnderTest struct {
	client   kubernetes.Interface
	runtime  internalapi.RuntimeService
	registry string // host of images that are not on the node

	kill, start func(t testing.TB)         // of the kubelet
	fault       func(method, terms string) // of the fake runtime
	log         func() string              // what the kubelet printed
}

// realRuntime is the instance over containerd; it starts with the first case that asks for it and
// ends with the tests.
var realRuntime struct {
	once  sync.Once
	place *runtimeUnderTest
	err   error
	undo  []func() error
}

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "28"); err != nil { // cases wait most of the time
		panic(err)
	}
	code := m.Run()
	for i := len(realRuntime.undo) - 1; i >= 0; i-- {
		if err := realRuntime.undo[i](); err != nil {
			fmt.Fprintln(os.Stderr, "lifecycle:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// eachRuntime runs cases over both runtimes.
func eachRuntime(t *testing.T, cases []Case) {
	t.Parallel()
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		p := fakeRuntime(t)
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) { t.Parallel(); c.live(t, p) })
		}
	})
	t.Run("containerd", func(t *testing.T) {
		t.Parallel()
		p := containerd(t)
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) { t.Parallel(); c.live(t, p) })
		}
	})
}

// fakeRuntime is a testcluster whose node has the images, and whose registry has one more.
func fakeRuntime(t *testing.T) *runtimeUnderTest {
	t.Helper()
	c := testcluster.Start(t)
	f := c.Runtime("node-1")
	f.AddImage(crifake.Image{Names: []string{busybox}})
	f.AddImage(crifake.Image{Names: []string{agnhost}})
	f.SetRegistry([]crifake.Image{{Names: []string{"registry.test/fresh:1"}},
		{Names: []string{"registry.test/slow:1"}, Pull: 2 * time.Second}})
	c.On(testcluster.Match{Image: agnhost}, testcluster.Script{Main: serveHealth})
	hands, err := cri.Dial(t.Context(), cri.Options{Endpoint: f.Endpoint(), Dialer: f.Dialer()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hands.Close() })
	return &runtimeUnderTest{
		client: c.Client, runtime: hands.Runtime(), registry: "registry.test", log: c.Dump,
		kill: func(testing.TB) { c.KillNode("node-1") }, start: func(testing.TB) { c.StartNode("node-1") },
		fault: func(method, terms string) { c.Fault("node-1", method, terms) },
	}
}

// serveHealth is what agnhost does in a fake container: gRPC's health protocol on port 5000,
// serving as "live".
func serveHealth(p *testcluster.Process) int {
	l := &stoppableListener{conns: make(chan net.Conn), down: make(chan struct{})}
	if err := p.Listen(5000, l.take); err != nil {
		return 1
	}
	h := health.NewServer()
	h.SetServingStatus("live", healthpb.HealthCheckResponse_SERVING)
	s := grpc.NewServer()
	healthpb.RegisterHealthServer(s, h)
	go s.Serve(l) //nolint:errcheck // ends with Stop
	defer s.Stop()
	select {
	case <-p.Signal:
		return 2 // as a Go program that is process 1
	case <-p.Context.Done():
		return 137
	}
}

// stoppableListener is a listener fed with the connections of a fake Pod.
type stoppableListener struct {
	conns chan net.Conn
	down  chan struct{}
	once  sync.Once
}

func (l *stoppableListener) take(c net.Conn) {
	select {
	case l.conns <- c:
	case <-l.down:
		_ = c.Close()
	}
}

func (l *stoppableListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.down:
		return nil, net.ErrClosed
	}
}

func (l *stoppableListener) Close() error   { l.once.Do(func() { close(l.down) }); return nil }
func (l *stoppableListener) Addr() net.Addr { return &net.TCPAddr{} }

// containerd is the instance of real processes and containers.
func containerd(t *testing.T) *runtimeUnderTest {
	t.Helper()
	bin := binaries.Gantry(t)
	if dir := os.Getenv("GANTRY_BIN"); dir != "" {
		bin = filepath.Join(dir, "gantry")
	}
	realRuntime.once.Do(func() { realRuntime.place, realRuntime.err = startReal(bin) })
	if realRuntime.err != nil {
		t.Fatal(realRuntime.err)
	}
	return realRuntime.place
}

// slowly delays the layers of the image "slow".
func slowly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/slow/blobs/") {
			select {
			case <-time.After(2 * time.Second):
			case <-r.Context().Done():
			}
		}
		h.ServeHTTP(w, r)
	})
}

func startReal(bin string) (*runtimeUnderTest, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "lifecycle")
	if err != nil {
		return nil, err
	}
	realRuntime.undo = append(realRuntime.undo, func() error { return os.RemoveAll(dir) })
	config := filepath.Join(dir, "kubelet.yaml")
	if err := os.WriteFile(config, []byte(kubeletConfig), 0o600); err != nil {
		return nil, err
	}
	i, err := instance.New(instance.Options{
		Binary: bin, BinDir: binaries.NextToTest(), NodeIP: "127.0.0.1", Split: true, Config: config,
	})
	if err != nil {
		return nil, err
	}
	realRuntime.undo = append(realRuntime.undo, i.Remove)
	r, err := images.Serve(slowly)
	if err != nil {
		return nil, err
	}
	realRuntime.undo = append(realRuntime.undo, r.Close)
	// Other images than those on the node: pulling one vouches for its content, and busybox would
	// have to be asked for too (KEP-2535).
	if err := errors.Join(r.Push("fresh:1", images.Httpd), r.Push("slow:1", images.NonRoot), i.Start(), i.WaitAPI(ctx),
		i.StartRoles()); err != nil {
		return nil, err
	}
	cfg, err := i.Admin(ctx)
	if err != nil {
		return nil, err
	}
	p := &runtimeUnderTest{registry: r.Addr, log: func() string { return i.Output("kubelet") }}
	if p.client, err = kubernetes.NewForConfig(cfg); err != nil {
		return nil, err
	}
	archive := filepath.Join(i.Dir, "images.tar")
	if err := images.Archive(archive, images.Select(images.Standard(), busybox, agnhost)); err != nil {
		return nil, err
	}
	if err := i.Await(ctx, 100*time.Millisecond,
		func(ctx context.Context) error { return i.Import(ctx, archive) }); err != nil {
		return nil, err
	}
	hands, err := cri.Dial(ctx, cri.Options{Endpoint: "unix://" + filepath.Join(i.Traces()[1], "containerd.sock")})
	if err != nil {
		return nil, err
	}
	realRuntime.undo = append(realRuntime.undo, hands.Close)
	p.runtime = hands.Runtime()
	p.kill = func(t testing.TB) {
		if err := i.Kill("kubelet"); err != nil {
			t.Fatal(err)
		}
	}
	p.start = func(t testing.TB) {
		if err := i.StartKubelet(); err != nil {
			t.Fatal(err)
		}
	}
	return p, nil
}
