package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

func options(at time.Time) Options {
	return Options{NodeName: "n1", BindAddress: "192.0.2.7", ServiceIP: "10.96.0.1",
		Now: func() time.Time { return at }}
}

func ensure(t *testing.T, dir string, o Options) *Files {
	t.Helper()
	f, err := Ensure(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func cert(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(raw)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (f *Files) all() map[string]Pair {
	return map[string]Pair{
		"apiserver": f.APIServer, "apiserver-kubelet-client": f.KubeletClient, "admin": f.Admin,
		"scheduler":          f.Scheduler,
		"controller-manager": f.ControllerManager, "network": f.Network, "local-storage": f.LocalStorage,
		"proxy": f.Proxy, "kubelet-client": f.Node,
		"kubelet": f.NodeServing, "front-proxy-client": f.FrontProxyClient,
	}
}

// row: SEC-08
func TestEveryCertificateIsSignedByItsAuthorityAndNamesItsHolder(t *testing.T) {
	now := time.Now()
	f := ensure(t, t.TempDir(), options(now))
	who := map[string][]string{
		"apiserver": {"kube-apiserver"}, "apiserver-kubelet-client": {"kube-apiserver-kubelet-client"},
		"admin": {"kubernetes-admin", "system:masters"}, "scheduler": {"system:kube-scheduler"},
		"network": {"gantry-network"}, "local-storage": {"gantry-local-storage"}, "proxy": {"system:kube-proxy"},
		"controller-manager": {"system:kube-controller-manager"}, "kubelet-client": {"system:node:n1", "system:nodes"},
		"kubelet": {"system:node:n1", "system:nodes"}, "front-proxy-client": {"front-proxy-client"},
	}
	for name, pair := range f.all() {
		c := cert(t, pair.Cert)
		roots := x509.NewCertPool()
		roots.AddCert(cert(t, f.CA.Cert))
		if name == "front-proxy-client" {
			roots = x509.NewCertPool()
			roots.AddCert(cert(t, f.FrontProxyCA.Cert))
		}
		if _, err := c.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
			CurrentTime: now}); err != nil {
			t.Errorf("%s: got error %v, want none", name, err)
		}
		if got := append([]string{c.Subject.CommonName}, c.Subject.Organization...); !slices.Equal(got, who[name]) {
			t.Errorf("%s speaks for %v, want %v", name, got, who[name])
		}
		if _, err := tls.LoadX509KeyPair(pair.Cert, pair.Key); err != nil {
			t.Errorf("%s: got error %v, want none", name, err)
		}
	}
	serving := cert(t, f.APIServer.Cert)
	for _, host := range []string{
		"localhost", "127.0.0.1", "192.0.2.7", "10.96.0.1", "n1", "kubernetes", "kubernetes.default",
		"kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	} {
		if err := serving.VerifyHostname(host); err != nil {
			t.Errorf("serving certificate: %v", err)
		}
	}
}

func TestFilesAreForTheOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	f := ensure(t, dir, options(time.Now()))
	if err := os.Chmod(f.Admin.Key, 0o644); err != nil {
		t.Fatal(err)
	}
	ensure(t, dir, options(time.Now()))
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 28 {
		t.Errorf("%d files, want 28: %v", len(entries), entries)
	}
	for _, e := range entries {
		if info, _ := e.Info(); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
	}
	if info, _ := os.Stat(dir); info.Mode().Perm() != 0o700 {
		t.Errorf("directory has mode %v", info.Mode())
	}
}

func TestRenewal(t *testing.T) {
	start := time.Now()
	day := 24 * time.Hour
	later := options(start)
	later.ServiceIP = "10.97.0.1"
	renamed := options(start)
	renamed.NodeName = "n2"
	cases := []struct {
		name    string
		options Options
		want    []string // certificates that change
	}{
		{"nothing changed", options(start.Add(200 * day)), nil},
		{"a third of the life left", options(start.Add(250 * day)), []string{
			"admin", "apiserver", "apiserver-kubelet-client", "controller-manager", "front-proxy-client", "kubelet",
			"kubelet-client", "local-storage", "network", "proxy", "scheduler",
		}},
		{"service range moved", later, []string{"apiserver"}},
		{"node renamed", renamed, []string{"apiserver", "kubelet", "kubelet-client"}},
		{"authority aging", options(start.Add(2600 * day)), []string{
			"admin", "apiserver", "apiserver-kubelet-client", "ca", "controller-manager", "front-proxy-ca",
			"front-proxy-client", "kubelet", "kubelet-client", "local-storage", "network", "proxy", "scheduler",
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			f := ensure(t, dir, options(start))
			all := f.all()
			all["ca"], all["front-proxy-ca"] = f.CA, f.FrontProxyCA
			before := map[string]string{}
			for name, p := range all {
				before[name] = cert(t, p.Cert).SerialNumber.String()
			}
			oldCA := cert(t, f.CA.Cert)
			ensure(t, dir, c.options)
			var got []string
			for name, p := range all {
				if cert(t, p.Cert).SerialNumber.String() != before[name] {
					got = append(got, name)
				}
				if _, err := tls.LoadX509KeyPair(p.Cert, p.Key); err != nil {
					t.Errorf("%s: got error %v, want none", name, err)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("renewed %v, want %v", got, c.want)
			}
			if err := cert(t, f.Admin.Cert).CheckSignatureFrom(oldCA); err != nil {
				t.Errorf("clients that know the old authority no longer trust: %v", err)
			}
		})
	}
}

func TestDamageIsNamedWithItsRemedyAndNothingIsOverwritten(t *testing.T) {
	for _, file := range []string{"ca.crt", "ca.key", "front-proxy-ca.key", "admin.crt", "apiserver.key", "sa.key"} {
		for how, content := range map[string]string{"garbage": "\x00garbage", "empty": "",
			"other": "-----BEGIN CAT-----\nAAAA\n-----END CAT-----\n"} {
			t.Run(file+" "+how, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				ensure(t, dir, options(time.Now()))
				path := filepath.Join(dir, file)
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				_, err := Ensure(dir, options(time.Now()))
				if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "delete") {
					t.Errorf("error %v: must name %s and the remedy", err, path)
				}
				if raw, _ := os.ReadFile(path); string(raw) != content {
					t.Errorf("%s was overwritten", path)
				}
			})
		}
	}
}

func TestInterruptedWork(t *testing.T) {
	cases := map[string]struct {
		lose []string
		ok   bool
	}{
		"first start cut after the authority's key": {[]string{"ca.crt"}, true},
		"authority without key":                     {[]string{"ca.key"}, false},
		"leaf without certificate":                  {[]string{"admin.crt"}, true},
		"leaf without key":                          {[]string{"admin.key"}, true},
		"public token key lost":                     {[]string{"sa.pub"}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			f := ensure(t, dir, options(time.Now()))
			for _, l := range c.lose {
				if err := os.Remove(filepath.Join(dir, l)); err != nil {
					t.Fatal(err)
				}
			}
			_, err := Ensure(dir, options(time.Now()))
			if (err == nil) != c.ok {
				t.Fatalf("error %v", err)
			}
			if c.ok {
				if _, err := tls.LoadX509KeyPair(f.Admin.Cert, f.Admin.Key); err != nil {
					t.Error(err)
				}
			}
		})
	}
	t.Run("renewal cut between key and certificate", func(t *testing.T) {
		dir := t.TempDir()
		f := ensure(t, dir, options(time.Now()))
		if _, err := newKey(f.Admin.Key); err != nil {
			t.Fatal(err)
		}
		ensure(t, dir, options(time.Now()))
		if _, err := tls.LoadX509KeyPair(f.Admin.Cert, f.Admin.Key); err != nil {
			t.Error(err)
		}
	})
	t.Run("another authority's key", func(t *testing.T) {
		dir := t.TempDir()
		f := ensure(t, dir, options(time.Now()))
		if _, err := newKey(f.CA.Key); err != nil {
			t.Fatal(err)
		}
		if _, err := Ensure(dir, options(time.Now())); err == nil || !strings.Contains(err.Error(), "does not belong") {
			t.Errorf("error %v", err)
		}
	})
}

func TestKubeconfig(t *testing.T) {
	dir := t.TempDir()
	f := ensure(t, dir, options(time.Now()))
	m, err := f.Material(f.Admin)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "conf", "admin.kubeconfig")
	for range 2 {
		if err := WriteKubeconfig(path, "https://127.0.0.1:6443", m); err != nil {
			t.Fatal(err)
		}
	}
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	c, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if c.Host != "https://127.0.0.1:6443" || string(c.CertData) != string(m.Cert) || string(c.CAData) != string(m.CA) {
		t.Errorf("config %+v", c)
	}
}

func BenchmarkFirstStart(b *testing.B) {
	for range b.N {
		if _, err := Ensure(b.TempDir(), options(time.Now())); err != nil {
			b.Fatal(err)
		}
	}
}
