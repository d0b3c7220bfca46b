package server_test

import (
	"crypto/x509"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/kubelet/server"
)

// row: KAP-11
// row: KAP-12
// row: KAP-14
func TestWhoIsLetIn(t *testing.T) {
	w := newTestServer(t)
	anonymous := rest.AnonymousClientConfig(w.config)
	with := func(change func(*rest.Config)) *rest.Config {
		c := rest.CopyConfig(anonymous)
		change(c)
		return c
	}
	for _, c := range []struct {
		name   string
		config *rest.Config
		want   int
	}{
		{"nobody", anonymous, 401},
		{"certificate of the cluster's CA", w.config, 200},
		{"certificate of another CA", with(func(c *rest.Config) {
			c.CertData, c.KeyData = newAuthority(t).sign(t, "kube-apiserver", "system:masters")
		}), 401},
		{"certificate of a server alone", with(func(c *rest.Config) {
			c.CertData, c.KeyData = w.ca.signFor(t, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, "kube-apiserver",
				"system:masters")
		}), 401},
		{"certificate without rights", with(func(c *rest.Config) { c.CertData, c.KeyData = w.ca.sign(t, "alice") }),
			403},
		{"token without rights", with(func(c *rest.Config) { c.BearerToken = "good" }), 403},
		{"unknown token", with(func(c *rest.Config) { c.BearerToken = "bad" }), 401},
	} {
		if code, body := w.request(c.config, http.MethodGet, "/pods"); code != c.want {
			t.Errorf("%s: %d %s, want %d", c.name, code, body, c.want)
		}
		if c.want == 200 {
			continue
		}
		// Nothing is served to them, whatever they ask for.
		for _, path := range []string{"GET /healthz", "GET /metrics", "GET /metrics/resource", "GET /metrics/cadvisor",
			"GET /stats/summary", "GET /runningpods/", "GET /configz", "GET /containerLogs/default/web/app",
			"GET /logs/", "GET /debug/pprof/", "GET /nothing", "GET /exec/default/web/app",
			"POST /exec/default/web/app", "POST /attach/default/web/app", "POST /portForward/default/web",
			"POST /run/default/web/app", "POST /checkpoint/default/web/app"} {
			method, path, _ := strings.Cut(path, " ")
			if code, body := w.request(c.config, method, path); code != c.want {
				t.Errorf("%s: %s %s: %d %s, want %d", c.name, method, path, code, body, c.want)
			}
		}
	}
}

// row: KAP-13
func TestWhatIsAllowed(t *testing.T) {
	w := newTestServer(t)
	token := rest.AnonymousClientConfig(w.config)
	token.BearerToken = "logs-only"
	for path, want := range map[string]int{
		"/metrics": 200, "/stats/summary": 403, "/pods": 403, "/containerLogs/default/web/app": 403, "/nothing": 403,
		"/healthz": 403,
	} {
		code, body := w.request(token, http.MethodGet, path)
		if code != want {
			t.Errorf("%s: %d %s, want %d", path, code, body, want)
		}
		if path == "/pods" &&
			body != "Forbidden (user=sa:logs-only, verb=get, resource=nodes, subresource(s)=[pods proxy])" {
			t.Errorf("%s: got %s, want it forbidden for nodes/pods and nodes/proxy", path, body)
		}
	}
	// What each path needs, any one of it, and with which verb.
	for path, want := range map[string]string{
		"GET /healthz": "get [healthz proxy]", "GET /runningpods/": "get [pods proxy]",
		"GET /configz":       "get [configz proxy]",
		"GET /stats/summary": "get [stats]", "POST /stats/summary": "create [stats]", "POST /metrics": "create [proxy]",
		"GET /containerLogs/default/web/app": "get [proxy]", "POST /run/default/web/app": "create [proxy]",
		"GET /exec/default/web/app": "get [proxy]", "POST /exec/default/web/app": "create [proxy]",
		"POST /attach/default/web/app": "create [proxy]", "POST /portForward/default/web": "create [proxy]",
		"POST /checkpoint/default/web/app": "create [checkpoint]", "PUT /nothing": "update [proxy]",
		"PATCH /nothing": "patch [proxy]", "DELETE /nothing": "delete [proxy]",
	} {
		method, path, _ := strings.Cut(path, " ")
		verb, subs, _ := strings.Cut(want, " ")
		text := "Forbidden (user=sa:logs-only, verb=" + verb + ", resource=nodes, subresource(s)=" + subs + ")"
		if code, body := w.request(token, method, path); code != 403 || body != text {
			t.Errorf("%s %s: %d %s, want 403 %s", method, path, code, body, text)
		}
	}
	asked := w.reviews.Load()
	w.request(token, http.MethodGet, "/metrics")
	if w.reviews.Load() != asked {
		t.Error("the same question is asked twice")
	}
	if code, _ := w.get("/nothing"); code != 404 {
		t.Errorf("an unknown path is %d for somebody with all rights", code)
	}
}

// The port speaks TLS alone: plain HTTP is refused, whatever is asked for.
//
// row: SEC-08
func TestPlainHTTPIsRefused(t *testing.T) {
	w := newTestServer(t)
	for _, path := range []string{"/healthz", "/pods", "/metrics"} {
		resp, err := http.Get("http://" + w.server.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("GET http://…%s: got %d, want 400", path, resp.StatusCode)
		}
	}
}

func TestMissingParts(t *testing.T) {
	if _, err := server.New(server.Options{}); err == nil || !strings.Contains(err.Error(), "Options.TLS") {
		t.Errorf("got %v, want an error with Options.TLS", err)
	}
}

// The authentication and authorization sections of the configuration.
//
// row: KAP-12, KAP-13, KAP-14
func TestConfiguredDelegation(t *testing.T) {
	for _, c := range []struct {
		name   string
		d      server.Delegation
		anonym int // GET /pods by nobody
		token  int // by a token without rights
	}{
		{"defaults", server.Delegation{}, 401, 403},
		{"anonymous", server.Delegation{Anonymous: true}, 403, 403},
		{"webhook off", server.Delegation{NoTokens: true}, 401, 401},
		{"AlwaysAllow", server.Delegation{AllowAll: true}, 401, 200},
		{"AlwaysAllow for everybody", server.Delegation{AllowAll: true, Anonymous: true}, 200, 200},
	} {
		api := fake.NewClientset()
		api.PrependReactor("create", "tokenreviews", reviewToken)
		api.PrependReactor("create", "subjectaccessreviews", (&testServer{reviews: &atomic.Int64{}}).reviewAccess)
		w := newTestServer(t, func(o *server.Options) {
			d := c.d
			d.Client = api
			o.Authenticator, o.Authorizer = server.Delegated(d)
		})
		nobody := rest.AnonymousClientConfig(w.config)
		somebody := rest.CopyConfig(nobody)
		somebody.BearerToken = "good"
		if code, body := w.request(nobody, http.MethodGet, "/pods"); code != c.anonym {
			t.Errorf("%s: nobody gets %d %s, want %d", c.name, code, body, c.anonym)
		}
		if code, body := w.request(somebody, http.MethodGet, "/pods"); code != c.token {
			t.Errorf("%s: a token gets %d %s, want %d", c.name, code, body, c.token)
		}
	}
}
