package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/cri/crifake"
	"github.com/gantry-project/gantry/internal/kubelet/server"
	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/test/wrappers"
)

// authority is a CA that signs for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test-ca"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// sign returns a pair for name, for a server or a client.
func (a *authority) sign(t *testing.T, name string, groups ...string) (certPEM, keyPEM []byte) {
	t.Helper()
	return a.signFor(t, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}, name, groups...)
}

// signFor returns a pair for name that is for these usages alone.
func (a *authority) signFor(t *testing.T, usages []x509.ExtKeyUsage, name string, groups ...string) (certPEM,
	keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name, Organization: groups},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: usages,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw})
}

// kubelet plays the Pods of a node.
type kubelet struct {
	mu   sync.Mutex
	pods []*v1.Pod
}

func (k *kubelet) Pods() []*v1.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]*v1.Pod(nil), k.pods...)
}

func (k *kubelet) PodByName(namespace, name string) (*v1.Pod, bool) {
	for _, p := range k.Pods() {
		if p.Namespace == namespace && p.Name == name {
			return p, true
		}
	}
	return nil, false
}

// testServer is a server over a fake runtime, an API server that answers reviews, and a client
// allowed everything.
type testServer struct {
	*testing.T
	fake      *crifake.Fake
	cri       *cri.Client
	kubelet   *kubelet
	api       *fake.Clientset
	ca        *authority
	url       string
	server    *server.Server
	usage     *usage
	config    *rest.Config // system:masters by certificate
	unhealthy *atomic.Pointer[string]
	reviews   *atomic.Int64 // SubjectAccessReviews
	logDir    string
}

// forSubtest is the fixture as a subtest has it.
func (w *testServer) forSubtest(t *testing.T) *testServer {
	c := *w
	c.T = t
	return &c
}

type usage struct{ brief bool }

func (u *usage) Summary(_ context.Context, brief bool) (*statsapi.Summary, error) {
	u.brief = brief
	return &statsapi.Summary{Node: statsapi.NodeStats{NodeName: "node-1"}, Pods: []statsapi.PodStats{}}, nil
}

func newTestServer(t *testing.T, change ...func(*server.Options)) *testServer {
	t.Helper()
	w := &testServer{T: t, unhealthy: &atomic.Pointer[string]{}, reviews: &atomic.Int64{}, usage: &usage{},
		kubelet: &kubelet{}, api: fake.NewClientset(), ca: newAuthority(t), logDir: t.TempDir()}
	f, err := crifake.Start(crifake.Options{Dir: t.TempDir(), Images: []crifake.Image{{Names: []string{"img:1"}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	w.fake = f
	if w.cri, err = cri.Dial(t.Context(), cri.Options{Endpoint: f.Endpoint()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.cri.Close() })
	w.api.PrependReactor("create", "tokenreviews", reviewToken)
	w.api.PrependReactor("create", "subjectaccessreviews", w.reviewAccess)
	authn, authz := server.Delegated(server.Delegation{Client: w.api,
		ClientCA: func() (*x509.CertPool, bool) { return w.ca.pool(), true }})
	certPEM, keyPEM := w.ca.sign(t, "node")
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	o := server.Options{
		NodeName: "node-1", Address: "127.0.0.1", Port: -1, TLS: &tls.Config{Certificates: []tls.Certificate{pair}},
		Authenticator: authn, Authorizer: authz, Pods: w.kubelet, Runtime: w.cri.Runtime(), Stats: w.usage,
		Healthz: func() error {
			if text := w.unhealthy.Load(); text != nil {
				return healthError(*text)
			}
			return nil
		},
		Configz: func() any { return map[string]string{"kind": "KubeletConfiguration"} },
	}
	for _, f := range change {
		f(&o)
	}
	s, err := server.New(o)
	if err != nil {
		t.Fatal(err)
	}
	w.server = s
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	w.url = "https://" + s.Addr().String()
	w.config = &rest.Config{Host: w.url, TLSClientConfig: rest.TLSClientConfig{CAData: w.ca.pem()}}
	w.config.CertData, w.config.KeyData = w.ca.sign(t, "kube-apiserver", "system:masters")
	return w
}

type healthError string

func (s healthError) Error() string { return string(s) }

// reviewToken knows the token "good" of a service account.
func reviewToken(a clienttesting.Action) (bool, runtime.Object, error) {
	r := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
	if r.Spec.Token == "good" || r.Spec.Token == "logs-only" {
		r.Status = authenticationv1.TokenReviewStatus{Authenticated: true,
			User: authenticationv1.UserInfo{Username: "sa:" + r.Spec.Token}}
	}
	return true, r, nil
}

// reviewAccess allows masters everything, sa:logs-only the logs of the node, nobody else anything.
func (w *testServer) reviewAccess(a clienttesting.Action) (bool, runtime.Object, error) {
	w.reviews.Add(1)
	r := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
	at := r.Spec.ResourceAttributes
	if at == nil || at.Resource != "nodes" || at.Name != "node-1" {
		return true, r, nil
	}
	for _, g := range r.Spec.Groups {
		r.Status.Allowed = r.Status.Allowed || g == "system:masters"
	}
	if r.Spec.User == "sa:logs-only" && at.Subresource == "metrics" && at.Verb == "get" {
		r.Status.Allowed = true
	}
	return true, r, nil
}

// run makes a Pod with one container per script; the API object's status stays empty unless the
// test fills it.
func (w *testServer) run(name string, scripts map[string]string) *v1.Pod {
	w.Helper()
	dir := filepath.Join(w.logDir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		w.Fatal(err)
	}
	uid := types.UID(name + "-uid")
	sandbox := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: string(uid)}, LogDirectory: dir,
		Labels: map[string]string{"io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": "default",
			"io.kubernetes.pod.uid": string(uid)},
	}
	id, err := w.cri.Runtime().RunPodSandbox(w.Context(), sandbox, "")
	if err != nil {
		w.Fatal(err)
	}
	pod := wrappers.MakePod().Namespace("default").Name(name).UID(string(uid)).Obj()
	for c, script := range scripts {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: c})
		if script == "" {
			continue
		}
		labels := map[string]string{"io.kubernetes.container.name": c}
		for k, v := range sandbox.Labels {
			labels[k] = v
		}
		cid, err := w.cri.Runtime().CreateContainer(w.Context(), id, &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: c}, Image: &runtimeapi.ImageSpec{Image: "img:1"},
			LogPath: c + ".log",
			Command: []string{"sh", "-c", script}, Labels: labels, Stdin: true,
		}, sandbox)
		if err != nil {
			w.Fatal(err)
		}
		if err := w.cri.Runtime().StartContainer(w.Context(), cid); err != nil {
			w.Fatal(err)
		}
	}
	w.kubelet.mu.Lock()
	defer w.kubelet.mu.Unlock()
	w.kubelet.pods = append(w.kubelet.pods, pod)
	return pod
}

// request sends a request with the credentials of config.
func (w *testServer) request(config *rest.Config, method, path string) (int, string) {
	w.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		w.Fatal(err)
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(w.Context(), method, w.url+path, nil)
	if err != nil {
		w.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		w.Fatalf("%s %s: got error %v, want none", method, path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	return resp.StatusCode, strings.TrimRight(string(b), "\n")
}

func (w *testServer) get(path string) (int, string) {
	w.Helper()
	return w.request(w.config, http.MethodGet, path)
}

// eventually polls until ok, for a minute at most.
func (w *testServer) eventually(what string, ok func() bool) {
	w.Helper()
	expect.Eventually(w, what, ok)
}
