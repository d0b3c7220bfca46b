package pods_test

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	streampf "k8s.io/cri-streaming/pkg/streaming/portforward"
	stream "k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/apiserver/auth"
	"github.com/gantry-project/gantry/internal/apiserver/registry/pods"
	"github.com/gantry-project/gantry/internal/apiserver/store"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pki"
	"github.com/gantry-project/gantry/test/wrappers"
)

// testServer is one API server and one fake kubelet for all tests of this package.
var testServer struct {
	sync.Once
	err     error
	client  kubernetes.Interface
	config  *rest.Config // over TLS, for upgrades
	facts   *memorySink
	port    int
	cleanup []func()
}

func TestMain(m *testing.M) {
	klog.InitFlags(nil)
	_ = flag.Set("logtostderr", "false")
	_ = flag.Set("stderrthreshold", "FATAL")
	klog.SetOutput(io.Discard)
	code := m.Run()
	for i := len(testServer.cleanup) - 1; i >= 0; i-- {
		testServer.cleanup[i]()
	}
	os.Exit(code)
}

type memorySink struct {
	sync.Mutex
	refused []journal.EvictionRefused
}

func (f *memorySink) Put(_ journal.Ref, fact journal.Fact) {
	if r, ok := fact.(journal.EvictionRefused); ok {
		f.Lock()
		defer f.Unlock()
		f.refused = append(f.refused, r)
	}
}

// startServer starts the API server once and makes a namespace for the test.
func startServer(t *testing.T) (kubernetes.Interface, string) {
	t.Helper()
	testServer.Do(func() { testServer.err = start() })
	if testServer.err != nil {
		t.Fatal(testServer.err)
	}
	ctx := t.Context()
	made, err := testServer.client.CoreV1().Namespaces().Create(ctx,
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "pods-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ns := made.Name
	if _, err := testServer.client.CoreV1().ServiceAccounts(ns).Create(ctx,
		&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return testServer.client, ns
}

func start() error {
	dir, err := os.MkdirTemp("", "gantry-pods")
	if err != nil {
		return err
	}
	testServer.cleanup = append(testServer.cleanup, func() { os.RemoveAll(dir) })
	kubelet := httptest.NewTLSServer(http.HandlerFunc(serveKubelet))
	testServer.cleanup = append(testServer.cleanup, kubelet.Close)
	_, port, _ := net.SplitHostPort(kubelet.Listener.Addr().String())
	testServer.port, _ = strconv.Atoi(port)
	files, err := pki.Ensure(dir+"/pki", pki.Options{NodeName: "n", ServiceIP: "10.96.0.1"})
	if err != nil {
		return err
	}
	tokens := dir + "/tokens.csv"
	if err := os.WriteFile(tokens, []byte("t,admin,admin-id,system:masters\n"), 0o600); err != nil {
		return err
	}
	testServer.facts = &memorySink{}
	ctx, cancel := context.WithCancel(context.Background())
	s, err := apiserver.New(ctx, apiserver.Config{
		Listen: apiserver.Listen{Address: "127.0.0.1", Port: -1}, DataDir: dir,
		Etcd: store.Options{NoFsync: true, Tick: 10 * time.Millisecond},
		Files: apiserver.Files{
			Cert: files.APIServer.Cert, Key: files.APIServer.Key, ClientCA: files.CA.Cert,
			ServiceAccountSigning: files.ServiceAccount.Key,
			ProxyCert:             files.FrontProxyClient.Cert, ProxyKey: files.FrontProxyClient.Key,
			RequestHeaderCA: files.FrontProxyCA.Cert,
		},
		Kubelets: pods.Connections{LoopbackNodes: true,
			Kubelet: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
			Journal: testServer.facts},
		Access: auth.Access(auth.Options{TokenFile: tokens}),
		// Custom resources and aggregation have tests of their own.
		Omit: apiserver.Omit{CustomResourcesOff: true, AggregatorOff: true, OpenAPIv2Off: true},
	})
	if err != nil {
		cancel()
		return err
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	testServer.cleanup = append(testServer.cleanup, func() {
		cancel()
		if err := <-done; err != nil {
			fmt.Fprintln(os.Stderr, "the server ended:", err)
		}
	})
	select {
	case <-s.Ready():
	case err := <-done:
		done <- err
		return fmt.Errorf("the server ended before it was ready: %w", err)
	}
	testServer.config = &rest.Config{Host: "https://" + s.Addr().String(), BearerToken: "t",
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	testServer.client = kubernetes.NewForConfigOrDie(
		s.InProcess(&user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}))
	return addNode(ctx)
}

func addNode(ctx context.Context) error {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{v1.LabelTopologyZone: "z1"}},
		Status: v1.NodeStatus{
			Addresses:       []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "127.0.0.1"}},
			DaemonEndpoints: v1.NodeDaemonEndpoints{KubeletEndpoint: v1.DaemonEndpoint{Port: int32(testServer.port)}},
		}}
	_, err := testServer.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
	return err
}

// serveKubelet answers as a kubelet does: logs as text, streams by the streaming library, 400 for a
// container that has not started.
func serveKubelet(w http.ResponseWriter, r *http.Request) {
	const idle, setup = time.Minute, 10 * time.Second
	part := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch part[0] {
	case "containerLogs":
		if part[3] == "late" {
			http.Error(w, `container "late" in pod "p" is waiting to start: ContainerCreating`, http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, "log of %s?%s\n", part[3], r.URL.RawQuery)
	case "exec":
		o, err := stream.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		stream.ServeExec(w, r, echoKubelet{}, part[2], "", part[3], r.URL.Query()["command"], o, idle, setup,
			stream.SupportedStreamingProtocols)
	case "attach":
		o, err := stream.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		stream.ServeAttach(w, r, echoKubelet{}, part[2], "", part[3], o, idle, setup,
			stream.SupportedStreamingProtocols)
	case "portForward":
		o, err := streampf.NewV4Options(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		streampf.ServePortForward(w, r, echoKubelet{}, part[2], "", o, idle, setup, streampf.SupportedProtocols)
	default:
		fmt.Fprintf(w, "kubelet says %s", r.URL.Path)
	}
}

// echoKubelet runs nothing: it prints the command and what it is given.
type echoKubelet struct{}

func (echoKubelet) ExecInContainer(_ context.Context, _, _, container string, cmd []string, in io.Reader,
	out, err io.WriteCloser, _ bool, _ <-chan stream.TerminalSize, _ time.Duration) error {
	fmt.Fprintf(out, "%s:%s:", container, strings.Join(cmd, " "))
	if in != nil {
		_, _ = io.Copy(out, in)
	}
	if err != nil {
		fmt.Fprint(err, "to stderr")
	}
	return nil
}

func (echoKubelet) AttachContainer(_ context.Context, _, _, container string, in io.Reader, out, _ io.WriteCloser,
	_ bool, _ <-chan stream.TerminalSize) error {
	fmt.Fprintf(out, "attached to %s:", container)
	_, err := io.Copy(out, in)
	return err
}

func (echoKubelet) PortForward(_ context.Context, _, _ string, port int32, s io.ReadWriteCloser) error {
	defer s.Close()
	fmt.Fprintf(s, "port %d", port)
	return nil
}

func newPod(t *testing.T, ns string, edit ...func(*v1.Pod)) *v1.Pod {
	t.Helper()
	p := wrappers.MakePod().Name("p").Container("c", "nginx:1.27").Obj()
	for _, e := range edit {
		e(p)
	}
	p, err := testServer.client.CoreV1().Pods(ns).Create(t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func bind(t *testing.T, ns string, uid *v1.Pod) error {
	t.Helper()
	return testServer.client.CoreV1().Pods(ns).Bind(t.Context(), &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: uid.Name, UID: uid.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: "n"},
	}, metav1.CreateOptions{})
}

func get(t *testing.T, ns string) *v1.Pod {
	t.Helper()
	p, err := testServer.client.CoreV1().Pods(ns).Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
