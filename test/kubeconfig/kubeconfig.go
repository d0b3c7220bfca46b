// Package kubeconfig gives programs that read a kubeconfig a way to a cluster that has no port:
// testcluster's, or a fake transport.
package kubeconfig

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Of forwards a port of the loopback address to an API server until the end of the test, as whom
// cfg is, and returns a kubeconfig file of it.
func Of(t testing.TB, cfg *rest.Config) string {
	t.Helper()
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(cfg.Host)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(&httputil.ReverseProxy{Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}})
	t.Cleanup(web.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: web.URL}
	c.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", Namespace: "default"}
	c.CurrentContext = "c"
	if err := clientcmd.WriteToFile(*c, file); err != nil {
		t.Fatal(err)
	}
	return file
}
