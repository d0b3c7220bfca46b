package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/apiserver/auth"
	"github.com/gantry-project/gantry/internal/apiserver/store"
	"github.com/gantry-project/gantry/internal/app/storecontrollers"
	"github.com/gantry-project/gantry/internal/control"
	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/features"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pki"
	"github.com/gantry-project/gantry/test/replay/api"
)

// recordedControllers are the controllers that ran beside the recorded API server. Unknown names
// are skipped.
var recordedControllers = []string{"namespace", "serviceaccount", "rootca", "clusterroleaggregation"}

// tokens are the recorded users with static tokens: token,user,uid,groups.
const tokens = `admin-token,admin,admin-id,"system:masters"
alice-token,alice,alice-id,"dev,test"
bob-token,bob,bob-id,""
`

// server is an API server configured as the recorded one, with its store and clients.
type server struct {
	api.Server
	client func() (*clientv3.Client, error) // of its etcd
	stop   func() error
}

// startServer runs it in this process, with files below dir.
func startServer(ctx context.Context, dir string) (*server, error) {
	files, err := pki.Ensure(filepath.Join(dir, "pki"), pki.Options{NodeName: "node-1", ServiceIP: "10.96.0.1",
		ExtraNames: []string{"127.0.0.1"}})
	if err != nil {
		return nil, err
	}
	tokenFile := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokenFile, []byte(tokens), 0o600); err != nil {
		return nil, err
	}
	signing := filepath.Join(dir, "sa.key")
	if err := writeRSAKey(signing); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	s, err := apiserver.New(ctx, apiserver.Config{
		DataDir: dir, Listen: apiserver.Listen{Address: "127.0.0.1", Port: -1,
			Advertise: netip.MustParseAddr("192.0.2.10")}, Etcd: store.Options{NoFsync: true},
		Files: apiserver.Files{
			Cert: files.APIServer.Cert, Key: files.APIServer.Key, ClientCA: files.CA.Cert,
			ProxyCert: files.FrontProxyClient.Cert, ProxyKey: files.FrontProxyClient.Key,
			RequestHeaderCA:       files.FrontProxyCA.Cert,
			ServiceAccountSigning: signing,
		},
		Services: apiserver.ServiceRanges{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}},
		// Default admission plugins, StorageObjectInUseProtection among them; its controllers did
		// not run there either.
		Access:   auth.Access(auth.Options{TokenFile: tokenFile, Anonymous: true, ProtectStorage: true}),
		Features: features.Features{V136: true}, Controllers: storecontrollers.All(),
	})
	if err != nil {
		cancel()
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	select {
	case <-s.Ready():
	case err := <-ended:
		cancel()
		return nil, errors.Join(errors.New("the API server ended before it was ready"), err)
	case <-time.After(time.Minute):
		cancel()
		return nil, errors.Join(errors.New("the API server was not ready in a minute: see its log"), <-ended)
	}
	out := &server{client: s.Store().Client, stop: func() error { cancel(); return <-ended }}
	out.URL = "https://" + s.Addr().String()
	if out.Users, err = users(files); err == nil {
		cfg := rest.CopyConfig(
			s.InProcess(&user.DefaultInfo{Name: "recorded-controllers",
				Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}))
		cfg.QPS = -1
		err = runControllers(ctx, cfg, files)
	}
	if err != nil {
		return nil, errors.Join(err, out.stop())
	}
	return out, nil
}

// writeRSAKey makes a key of the recorded server's kind for service-account tokens; Gantry's own
// are elliptic.
func writeRSAKey(path string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	return os.WriteFile(path,
		pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600)
}

func runControllers(ctx context.Context, cfg *rest.Config, files *pki.Files) error {
	ca, err := os.ReadFile(files.CA.Cert)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	meta, err := metadata.NewForConfig(cfg)
	if err != nil {
		return err
	}
	go func() { // a controller that cannot run shows in the cases that wait for it
		_ = control.Run(ctx, control.Options{
			Deps: controllerruntime.ControllerContext{Client: client, Metadata: meta,
				Informers: informers.NewSharedInformerFactory(client, 0), Journal: journal.Discard{}, RootCA: ca,
				Volumes: controllerruntime.Volumes{NoUnusedClaims: true}}, // v1.36.3 was recorded
			Only: recordedControllers,
		})
	}()
	return nil
}

// users returns one client per recorded user.
func users(files *pki.Files) (map[string]*http.Client, error) {
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(files.CA.Cert)
	if err != nil {
		return nil, err
	}
	pool.AppendCertsFromPEM(pem)
	carol, err := clientCertificate(files.CA, "carol", "dev")
	if err != nil {
		return nil, err
	}
	out := map[string]*http.Client{
		"anonymous":  client(pool, nil, ""),
		"carol-cert": client(pool, &carol, ""),
	}
	for name, token := range map[string]string{"admin": "admin-token", "alice": "alice-token", "bob": "bob-token",
		"invalid": "nobody-has-this-token"} {
		out[name] = client(pool, nil, token)
	}
	return out, nil
}

func client(pool *x509.CertPool, cert *tls.Certificate, token string) *http.Client {
	c := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	if cert != nil {
		c.Certificates = []tls.Certificate{*cert}
	}
	// No transparent compression: headers and bodies are compared as they come.
	t := &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true, DisableCompression: true}
	return &http.Client{
		Transport:     bearer{t, token},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bearer adds a token unless the recorded request has credentials.
type bearer struct {
	next  http.RoundTripper
	token string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token == "" || r.Header.Get("Authorization") != "" {
		return b.next.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// clientCertificate signs a client certificate valid for a day.
func clientCertificate(ca pki.Pair, name, organization string) (tls.Certificate, error) {
	authority, err := tls.LoadX509KeyPair(ca.Cert, ca.Key)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: name, Organization: []string{organization}},
		NotBefore:    now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority.Leaf, key.Public(), authority.PrivateKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}))
}
