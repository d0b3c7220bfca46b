package kubelet

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/app"
	"github.com/gantry-project/gantry/internal/app/noderole"
	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/options"
	"github.com/gantry-project/gantry/internal/pki"
)

// A kubelet without flags takes kubelet.conf and config.yaml from where kubeadm puts them;
// what is named counts more.
//
// row: KSL-02
// row: KSL-04
func TestConventionalFiles(t *testing.T) {
	root := t.TempDir()
	for _, file := range []string{kubeletKubeconfig, kubeletConfigFile} {
		if err := os.MkdirAll(filepath.Dir(root+file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(root+file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ root, kubeconfig, wantKubeconfig, wantConfig string }{
		{root, "", root + "/etc/kubernetes/kubelet.conf", root + "/var/lib/kubelet/config.yaml"},
		{root, "/other", "/other", root + "/var/lib/kubelet/config.yaml"},
		{t.TempDir(), "", "", ""},
	} {
		k := &app.Kubelet{}
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.StringVar(&k.Role.Kubeconfig, "kubeconfig", "", "")
		f.StringVar(&k.Node.ConfigSources.File, "config", "", "")
		if c.kubeconfig != "" {
			if err := f.Set("kubeconfig", c.kubeconfig); err != nil {
				t.Fatal(err)
			}
		}
		conventionalPaths(k, c.root, f)
		if k.Role.Kubeconfig != c.wantKubeconfig || k.Node.ConfigSources.File != c.wantConfig {
			t.Errorf("%q, %q; want %q, %q", k.Role.Kubeconfig, k.Node.ConfigSources.File, c.wantKubeconfig,
				c.wantConfig)
		}
	}
	if c, _, err := cli.Root(cli.IO{}, New(cli.IO{})).Find([]string{"kubelet"}); err != nil ||
		c.Flags().Lookup("kubeconfig") == nil || c.Flags().Lookup("config") == nil {
		t.Errorf("%v: the flags have other names", err)
	}
}

// The API server that kubelet.conf names is asked with the client certificate that it holds,
// whether that certificate is renewed (rotateCertificates) or not: to it the kubelet is
// system:node:NAME.
//
// row: KSL-04
func TestConventionalKubeconfigIsTheNodesIdentity(t *testing.T) {
	root := t.TempDir()
	files, err := pki.Ensure(t.TempDir(), pki.Options{NodeName: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	node, err := files.Material(files.Node)
	if err != nil {
		t.Fatal(err)
	}
	server := clientCertificateServer(t, files, node.CA)
	if err := pki.WriteKubeconfig(root+"/etc/kubernetes/kubelet.conf", server.URL, node); err != nil {
		t.Fatal(err)
	}
	k := &app.Kubelet{}
	conventionalPaths(k, root, pflag.NewFlagSet("", pflag.ContinueOnError))
	cfg, _, err := cli.RestConfig(k.Role.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	rotating, _, err := noderole.RotatingConfig(&options.Instance{NodeName: "n1", DataDir: t.TempDir()}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*rest.Config{"as it is": cfg, "rotating": rotating} {
		client, err := noderole.ConfiguredClient(c, &kubeletconfig.KubeletConfiguration{KubeAPIQPS: new(int32)})
		if err != nil {
			t.Fatal(err)
		}
		v, err := client.Discovery().ServerVersion()
		if want := "system:node:n1 [system:nodes]"; err != nil || v.GitVersion != want {
			t.Errorf("%s: the API server is asked by %v, %v, want %s", name, v, err, want)
		}
	}
}

// clientCertificateServer answers /version with the user and groups of the client's certificate.
func clientCertificateServer(t *testing.T, files *pki.Files, authority []byte) *httptest.Server {
	t.Helper()
	own, err := tls.LoadX509KeyPair(files.APIServer.Cert, files.APIServer.Key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		subject := r.TLS.PeerCertificates[0].Subject
		fmt.Fprintf(w, `{"gitVersion": "%s %v"}`, subject.CommonName, subject.Organization)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}
