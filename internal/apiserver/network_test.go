package apiserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/apiserver/store"
)

// byHeader is an authenticator for tests: the network names its user.
type byHeader struct{}

func (byHeader) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	name := req.Header.Get("X-Test-User")
	if name == "" {
		return nil, false, nil
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: name,
		Groups: strings.Fields(req.Header.Get("X-Test-Groups"))}}, true, nil
}

func client() *http.Client {
	return &http.Client{
		Timeout: time.Minute,
		Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true,
			RootCAs: x509.NewCertPool()}}, //nolint:gosec // a test's own server
	}
}

func get(t *testing.T, s *Server, path string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.Addr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	c := client()
	defer c.CloseIdleConnections()
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// Nothing that comes over the network is taken for an in-process client.
func TestNetworkRequestsAreNotInProcess(t *testing.T) {
	c := testConfig(t.TempDir())
	c.Access = func(AccessDeps) (*Access, error) { return &Access{Authenticator: byHeader{}}, nil }
	s, _, _ := startServer(t, c)
	for _, x := range []struct {
		name   string
		header []string
		code   int
	}{
		{"nobody", nil, http.StatusUnauthorized},
		{"somebody", []string{"X-Test-User", "bob"}, http.StatusForbidden},
		{"a master", []string{"X-Test-User", "root", "X-Test-Groups", "system:masters"}, http.StatusOK},
	} {
		res, body := get(t, s, "/api/v1/pods", x.header...)
		if res.StatusCode != x.code {
			t.Errorf("%s: %d %s, want %d", x.name, res.StatusCode, body, x.code)
		}
		if res.ProtoMajor != 2 {
			t.Errorf("%s: spoken in %s, want HTTP/2", x.name, res.Proto)
		}
	}
	for _, path := range []string{"/healthz", "/livez", "/readyz"} {
		if _, body := get(t, s, path, "X-Test-User", "root", "X-Test-Groups", "system:masters"); body != "ok" {
			t.Errorf("%s: got %s, want ok", path, body)
		}
	}
}

// A watch over the network is one HTTP/2 stream that carries event after event.
// row: API-17
func TestNetworkWatch(t *testing.T) {
	c := testConfig(t.TempDir())
	c.Access = func(AccessDeps) (*Access, error) { return &Access{Authenticator: byHeader{}}, nil }
	s, k, _ := startServer(t, c)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"https://"+s.Addr().String()+"/api/v1/namespaces/default/configmaps?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Test-User", "root")
	req.Header.Set("X-Test-Groups", "system:masters")
	h := client()
	defer h.CloseIdleConnections()
	res, err := h.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.ProtoMajor != 2 || res.TLS.NegotiatedProtocol != "h2" {
		t.Errorf("spoken in %s, negotiated %q", res.Proto, res.TLS.NegotiatedProtocol)
	}
	events := json.NewDecoder(res.Body)
	for _, name := range []string{"one", "two", "three"} {
		mustCreate[*corev1.ConfigMap](t)(k.CoreV1().ConfigMaps("default").Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
		var e struct {
			Type   string
			Object corev1.ConfigMap
		}
		if err := events.Decode(&e); err != nil || e.Type != "ADDED" || e.Object.Name != name {
			t.Fatalf("got %+v, %v, want no error, Type ADDED and Name %v", e, err, name)
		}
	}
}

// An in-process client is who it was made for, whatever the chain's authenticator says.
func TestInProcessIdentity(t *testing.T) {
	s, _ := shared(t)
	c := kubernetes.NewForConfigOrDie(s.InProcess(&user.DefaultInfo{Name: "bob"}))
	_, err := c.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err == nil || !strings.Contains(err.Error(), `User "bob" cannot list resource "pods"`) {
		t.Errorf("got %v, want a refusal that names bob", err)
	}
}

// A client made before the server is built waits for it, or for its own end.
func TestInProcessBeforeStart(t *testing.T) {
	e := newInProcessHandler()
	c := kubernetes.NewForConfigOrDie(e.clientConfig(admin())).Discovery().RESTClient()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Get().AbsPath("/x").DoRaw(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the end of the caller's patience", err)
	}
	answer := make(chan error, 1)
	go func() {
		raw, err := c.Get().AbsPath("/x").DoRaw(t.Context())
		if string(raw) != "here" {
			err = errors.Join(err, errors.New("answered: "+string(raw)))
		}
		answer <- err
	}()
	e.set(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") }))
	if err := <-answer; err != nil {
		t.Error(err)
	}
}

// A port that is taken, a directory in use and a damaged store each give one clear sentence.
func TestRefusalsAtStart(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c := testConfig(t.TempDir())
	c.Listen.Port = ln.Addr().(*net.TCPAddr).Port
	_, err = New(t.Context(), c)
	if _, ok := errors.AsType[*PortTaken](err); !ok {
		t.Errorf("taken port: %v", err)
	}

	dir := t.TempDir()
	held, err := New(t.Context(), testConfig(dir))
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(t.Context(), testConfig(dir))
	if _, ok := errors.AsType[*store.InUse](err); !ok {
		t.Errorf("directory in use: %v", err)
	}
	held.Close()
}

func TestDamagedStore(t *testing.T) {
	o := store.Options{Dir: t.TempDir(), NoFsync: true, Tick: 10 * time.Millisecond}
	s, err := store.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	for _, pattern := range []string{"member/snap/db", "member/wal/*.wal"} {
		dir := t.TempDir()
		if err := os.CopyFS(dir+"/copy", os.DirFS(o.Dir)); err != nil {
			t.Fatal(err)
		}
		damage(t, filepath.Join(dir, "copy", pattern))
		again, err := store.Open(context.Background(), store.Options{Dir: dir + "/copy", NoFsync: true,
			Tick: 10 * time.Millisecond})
		if err == nil {
			again.Close()
			t.Errorf("%s: opened in spite of the damage", pattern)
		}
		if d, ok := errors.AsType[*store.Damaged](err); !ok || d.Dir != dir+"/copy" {
			t.Errorf("%s: %v, want *store.Damaged", pattern, err)
		}
	}
	again, err := store.Open(context.Background(), o)
	if err != nil {
		t.Fatalf("the undamaged one: %v", err)
	}
	again.Close()
}

// damage turns the first bytes of a file into others.
func damage(t *testing.T, pattern string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("got %v, %v, %v, want no error and some files", pattern, files, err)
	}
	raw, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := range min(len(raw), 8192) {
		raw[i] ^= 0x5a
	}
	if err := os.WriteFile(files[0], raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The same server works over an etcd of its own kind that somebody else runs.
func TestExternalEtcd(t *testing.T) {
	etcd, err := store.Open(t.Context(), store.Options{Dir: t.TempDir(), NoFsync: true, Tick: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	c := testConfig(t.TempDir())
	c.Etcd = store.Options{Servers: etcd.Transport.ServerList}
	_, k, stop := startServer(t, c)
	mustCreate[*corev1.Pod](t)(k.CoreV1().Pods("default").Create(t.Context(), pod("p"), metav1.CreateOptions{}))
	direct, err := etcd.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	if res, err := direct.Get(t.Context(), "/registry/pods/default/p"); err != nil || len(res.Kvs) != 1 {
		t.Errorf("got %v, %v, want no error and 1 in Kvs", res, err)
	}
	stop()
}
