package server_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/gantry-project/gantry/internal/kubelet/server"
)

func respondWith(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) })
}

// row: KAP-03
func TestMetricPages(t *testing.T) {
	w := newTestServer(t, func(o *server.Options) {
		o.Endpoints.Cadvisor, o.Endpoints.Resource = respondWith("cadvisor"), respondWith("resource")
	})
	for path, want := range map[string]int{"/metrics/cadvisor": 200, "/metrics/resource": 200, "/metrics/probes": 404,
		"/metrics/slis": 200} {
		if code, body := w.get(path); code != want ||
			code == 200 && "/metrics/"+body != path && path != "/metrics/slis" {
			t.Errorf("%s: %d %s, want %d", path, code, body, want)
		}
	}
	token := rest.AnonymousClientConfig(w.config)
	token.BearerToken = "logs-only" // has nodes/metrics
	if code, _ := w.request(token, http.MethodGet, "/metrics/resource"); code != 200 {
		t.Errorf("nodes/metrics does not open /metrics/resource: %d, want 200", code)
	}
}

// Each page is guarded by upstream's subresource (KEP-2862), named in the refusal.
//
// row: KAP-13
func TestFineGrainedPermissions(t *testing.T) {
	w := newTestServer(t)
	token := rest.AnonymousClientConfig(w.config)
	token.BearerToken = "good" // has no right
	for request, want := range map[string]string{
		"GET /pods": "[pods proxy]", "GET /runningpods/": "[pods proxy]", "GET /healthz/ping": "[healthz proxy]",
		"GET /configz":       "[configz proxy]",
		"GET /drivercalls":   "[pods proxy]",
		"GET /listening/a/b": "[pods proxy]", "GET /stats/summary": "[stats]", "GET /metrics/cadvisor": "[metrics]",
		"GET /logs/messages": "[log]", "GET /logs": "[log]",
		"POST /checkpoint/a/b/c": "[checkpoint]", "GET /exec/a/b/c": "[proxy]", "POST /run/a/b/c": "[proxy]",
		"GET /debug/pprof/heap": "[proxy]", "PUT /debug/flags/v": "[proxy]",
	} {
		method, path, _ := strings.Cut(request, " ")
		verb := map[string]string{"GET": "get", "POST": "create", "PUT": "update"}[method]
		code, body := w.request(token, method, path)
		if line := "Forbidden (user=sa:good, verb=" + verb + ", resource=nodes, subresource(s)=" + want +
			")"; code != 403 || body != line {
			t.Errorf("%s: %d %s, want %s", request, code, body, line)
		}
	}
}

func TestSwitchedOff(t *testing.T) {
	for _, c := range []struct {
		name string
		off  server.Disabled
		want map[string]string
	}{
		{"enableDebuggingHandlers", server.Disabled{Debugging: true}, map[string]string{
			"/exec/a/b/c": "Debug endpoints are disabled.", "/containerLogs/a/b/c": "Debug endpoints are disabled.",
			"/runningpods/": "Debug endpoints are disabled.",
			"/logs/":        "Debug endpoints are disabled.", "/debug/pprof/heap": "Debug endpoints are disabled.",
		}},
		{"enableSystemLogHandler", server.Disabled{SystemLogs: true},
			map[string]string{"/logs/": "logs endpoint is disabled.", "/logs/x": "logs endpoint is disabled."}},
		{"enableProfilingHandler", server.Disabled{Profiling: true},
			map[string]string{"/debug/pprof/": "profiling endpoint is disabled."}},
	} {
		w := newTestServer(t, func(o *server.Options) { o.Endpoints.Disabled = c.off })
		for path, want := range c.want {
			if code, body := w.get(path); code != 405 || body != want {
				t.Errorf("%s: %s: %d %s, want 405 %s", c.name, path, code, body, want)
			}
		}
		if code, _ := w.get("/pods"); code != 200 {
			t.Errorf("%s takes /pods away: %d, want 200", c.name, code)
		}
	}
}

func TestDebugPages(t *testing.T) {
	w := newTestServer(t)
	if code, body := w.get("/debug/pprof/cmdline"); code != 200 || body == "" {
		t.Errorf("cmdline: %d", code)
	}
	if code, body := w.get("/debug/pprof/"); code != 200 || !strings.Contains(body, "goroutine") {
		t.Errorf("index: %d", code)
	}
	if code, body := w.request(w.config, http.MethodPut, "/debug/flags/v"); code != 400 {
		t.Errorf("an empty verbosity: %d %s, want 400", code, body)
	}
	if code, body := w.request(w.config, http.MethodPost, "/pods"); code != 405 || body != "Method Not Allowed" {
		t.Errorf("POST /pods: %d %s, want 405, \"Method Not Allowed\"", code, body)
	}
}

func TestNodeLogs(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "log/sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"secret": "secret", "log/messages": "hello", "log/sub/app.log": "deep",
		"log/web.log": "web's"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret", filepath.Join(dir, "log/out")); err != nil {
		t.Fatal(err)
	}
	w := newTestServer(t, func(o *server.Options) { o.Endpoints.NodeLogs = filepath.Join(dir, "log") })
	for path, want := range map[string]string{"/logs/messages": "hello", "/logs/sub/app.log": "deep",
		"/logs/messages?query=web": "hello"} {
		if code, body := w.get(path); code != 200 || body != want {
			t.Errorf("%s: %d %s, want %s", path, code, body, want)
		}
	}
	if code, body := w.get("/logs/"); code != 200 || !strings.Contains(body, "messages") {
		t.Errorf("the directory: got %d %s, want 200 and it to contain %q", code, body, "messages")
	}
	for _, path := range []string{"/logs/out", "/logs/none", "/logs/..%2fsecret"} {
		if code, body := w.get(path); code == 200 || strings.Contains(body, "secret\n") {
			t.Errorf("%s: got %d %s, want code other than 200 and body without secret", path, code, body)
		}
	}
	on := newTestServer(t,
		func(o *server.Options) { o.Endpoints.NodeLogs, o.Endpoints.LogQuery = filepath.Join(dir, "log"), true })
	for path, want := range map[string]struct {
		code int
		text string
	}{
		"/logs/?query=web":         {200, "web's"},
		"/logs/?query=none":        {200, "\nlog not found for none"},
		"/logs/?query=/messages":   {200, "hello"},
		"/logs/messages":           {200, "hello"},
		"/logs/messages?query=web": {406, "path not allowed in query mode"},
		"/logs/?query=":            {400, `query: Invalid value: [""]: query cannot be empty`},
		"/logs/?query=a;b":         {400, ""},
		"/logs/?query=a%3Bb": {406,
			`query: Invalid value: "a;b": input contains unsupported characters`},
		"/logs/?query=web&tailLines=200000": {406,
			"tailLines: Invalid value: 200000: must be between 0 and 100000, inclusive"},
		"/logs/?query=web&sinceTime=now": {400, `sinceTime: Invalid value: "now": invalid time format`},
		"/logs/?query=/messages&query=web": {406,
			`query: Invalid value: "[/messages], [web]": cannot specify a file and service`},
		"/logs/?tailLines=3": {406, "query: Required value: cannot be empty with options"},
	} {
		if code, body := on.get(path); path != "/logs/?query=a;b" && (code != want.code || body != want.text) {
			t.Errorf("%s: %d %q, want %d %q", path, code, body, want.code, want.text)
		}
	}
}

func TestCheckpoint(t *testing.T) {
	w := newTestServer(t)
	w.run("web", map[string]string{"app": "run"})
	for path, want := range map[string]string{
		"/checkpoint/default/none/app":          "404 pod does not exist",
		"/checkpoint/default/web/none":          "404 container none does not exist",
		"/checkpoint/default/web/app?timeout=x": "404 cannot parse value of timeout parameter",
		"/checkpoint/default/web/app":           "500 checkpointing of default/web/app failed (rpc error: ",
	} {
		code, body := w.request(w.config, http.MethodPost, path)
		if got := strings.TrimSpace(strings.Join([]string{http.StatusText(code), body}, " ")); !strings.HasPrefix(got,
			http.StatusText(map[string]int{"404": 404, "500": 500}[want[:3]])+want[3:]) {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestRequestsAreCounted(t *testing.T) {
	var mu sync.Mutex
	var startedAt, ended []string
	w := newTestServer(t, func(o *server.Options) {
		o.Endpoints.Observe = func(method, path string, long bool) func() {
			mu.Lock()
			defer mu.Unlock()
			startedAt = append(startedAt, method+" "+path)
			return func() {
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, path)
			}
		}
	})
	w.get("/pods")
	w.get("/metrics/resource")
	w.get("/nothing/at/all")
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"GET pods", "GET metrics/resource", "GET other"}; !slices.Equal(startedAt, want) ||
		len(ended) != 3 {
		t.Errorf("got %v, %v, want startedAt %v and 3 in ended", startedAt, ended, want)
	}
}

func TestIdleStreamsAreClosed(t *testing.T) {
	w := newTestServer(t, func(o *server.Options) { o.Endpoints.Idle = 50 * time.Millisecond })
	w.run("web", map[string]string{"app": "run"})
	in, typed := io.Pipe()
	defer typed.Close()
	done := make(chan error, 1)
	go func() {
		done <- w.stream("spdy", "/exec/default/web/app?output=1&input=1&command=cat",
			remotecommand.StreamOptions{Stdin: in, Stdout: io.Discard})
	}()
	select {
	case _ = <-done: // the command itself waits for input that does not come
	case <-time.After(time.Minute):
		t.Error("the stream is still open")
	}
}

// row: KAP-02
func TestHealthHandlerNeedsNoAuth(t *testing.T) {
	w := newTestServer(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: w.server.HealthHandler(), ReadHeaderTimeout: time.Second}
	go func() { _ = srv.Serve(l) }()
	defer srv.Close()
	resp, err := http.Get("http://" + l.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("got %v, want StatusCode 200", resp.Status)
	}
}

// The read-only port answers without credentials what only reads, and nothing that acts or shows
// settings.
//
// row: KAP-01
func TestReadOnlyPort(t *testing.T) {
	w := newTestServer(t)
	h := w.server.ReadOnlyHandler()
	for path, want := range map[string]int{"/pods": 200, "/healthz": 200, "/metrics": 200, "/configz": 404,
		"/exec/default/web/app": 404, "/containerLogs/default/web/app": 404, "/run/default/web/app": 404,
		"/logs/": 404} {
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		if answer.Code != want {
			t.Errorf("%s: %d, want %d", path, answer.Code, want)
		}
	}
}
