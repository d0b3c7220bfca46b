package auth_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/apiserver/auth"
	"github.com/gantry-project/gantry/internal/apiserver/store"
	"github.com/gantry-project/gantry/internal/features"
	"github.com/gantry-project/gantry/internal/pki"
)

// tokens are static users of the tests, as in the recordings.
const tokens = `admin-token,admin,admin-id,system:masters
alice-token,alice,alice-id,"dev,test"
bob-token,bob,bob-id,""
`

// server is a whole API server with certificates, tokens and every rule of access.
type server struct {
	*apiserver.Server
	files *pki.Files
	took  time.Duration
}

func serve(t testing.TB, o auth.Options) *server {
	t.Helper()
	dir := t.TempDir()
	files, err := pki.Ensure(filepath.Join(dir, "pki"), pki.Options{NodeName: "n1", ServiceIP: "10.96.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	o.TokenFile = filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(o.TokenFile, []byte(tokens), 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
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
		// requests in CBOR pass the same checks
		Access: auth.Access(o), Features: features.Features{CBORServingAndStorage: true},
	})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-s.Ready():
	case err := <-done:
		done <- err
		t.Fatalf("the server ended before it was ready: %v", err)
	case <-time.After(2 * time.Minute):
		t.Fatal("the server was not ready in two minutes")
	}
	return &server{s, files, time.Since(begin)}
}

func master() user.Info {
	return &user.DefaultInfo{Name: "admin", UID: "admin-id", Groups: []string{user.SystemPrivilegedGroup,
		user.AllAuthenticated}}
}
