package http_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/kubelet/probe"
	probehttp "github.com/gantry-project/gantry/internal/kubelet/probe/http"
	"github.com/gantry-project/gantry/internal/kubelet/probe/probetest"
	"github.com/gantry-project/gantry/test/ports"
)

var prober = probehttp.Prober{UserAgent: "kube-probe/1.37"}

func target(t *testing.T, server, path string) probe.Target {
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	port, _ := strconv.Atoi(u.Port())
	return probe.Target{
		PodIP: u.Hostname(), Timeout: 5 * time.Second, Container: &v1.Container{},
		Probe: &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{
			Path: path, Port: intstr.FromInt(port), Scheme: v1.URIScheme(strings.ToUpper(u.Scheme)),
		}}},
	}
}

func serve(t *testing.T, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func TestConformance(t *testing.T) {
	probetest.Run(t, probetest.Subject{
		Prober: prober,
		Target: func(t *testing.T, c probetest.Condition) probe.Target {
			if c == probetest.Absent {
				return target(t, fmt.Sprintf("http://127.0.0.1:%d", ports.Closed(t)), "/")
			}
			if c == probetest.Unresponsive {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { l.Close() })
				return target(t, "http://"+l.Addr().String(), "/")
			}
			return target(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if c == probetest.Failing {
					w.WriteHeader(http.StatusInternalServerError)
				}
			}), "/")
		},
	})
}

// row: PRB-03
func TestStatus(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		w.WriteHeader(code)
		fmt.Fprint(w, "body")
	})
	for _, tc := range []struct {
		code int
		want probe.Outcome
	}{
		{200, probe.Outcome{Result: probe.Success, Output: "body"}},
		{299, probe.Outcome{Result: probe.Success, Output: "body"}},
		{302, probe.Outcome{Result: probe.Warning, Output: "Probe terminated redirects, Response body: body"}},
		{399, probe.Outcome{Result: probe.Warning, Output: "Probe terminated redirects, Response body: body"}},
		// recordings/pods/liveness-http-500
		{400, probe.Outcome{Result: probe.Failure, Output: "HTTP probe failed with statuscode: 400"}},
		{500, probe.Outcome{Result: probe.Failure, Output: "HTTP probe failed with statuscode: 500"}},
	} {
		got := prober.Probe(t.Context(), target(t, server, "/"+strconv.Itoa(tc.code)))
		if got.Err != nil && tc.code == 302 { // a 302 without a Location cannot be followed
			continue
		}
		if got.Result != tc.want.Result || got.Output != tc.want.Output {
			t.Errorf("%d: %+v, want %+v", tc.code, got, tc.want)
		}
	}
	for code := 200; code < 1000; code++ {
		if redirects := []int{301, 302, 303, 307, 308}; slices.Contains(redirects, code) {
			continue // without a Location it cannot be followed
		}
		passes := code < 400
		if got := prober.Probe(t.Context(), target(t, server, "/"+strconv.Itoa(code))); (got.Result == probe.Success ||
			got.Result == probe.Warning) != passes || got.Err != nil {
			t.Errorf("%d: got %+v, want that it passes to be %t", code, got, passes)
		}
	}
}

// A Pod's IPv6 address, and a path as it may be written.
//
// row: PRB-04
// row: PRB-06
func TestAddressAndPath(t *testing.T) {
	for _, c := range []struct{ ip, path, address, asks string }{
		{"10.1.2.3", "/healthz", "10.1.2.3:8080", "/healthz"},
		{"10.1.2.3", "healthz", "10.1.2.3:8080", "/healthz"},
		{"10.1.2.3", "", "10.1.2.3:8080", "/"},
		{"10.1.2.3", "/a/b?c=d&e=f", "10.1.2.3:8080", "/a/b?c=d&e=f"},
		{"fd00::9", "/healthz", "[fd00::9]:8080", "/healthz"},
	} {
		var dialed, host, asks string
		p := prober
		p.Dial = func(_ context.Context, network, address string) (net.Conn, error) {
			dialed = network + " " + address
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				if r, err := http.ReadRequest(bufio.NewReader(far)); err == nil {
					host, asks = r.Host, r.RequestURI
					fmt.Fprint(far, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
				}
			}()
			return near, nil
		}
		o := p.Probe(t.Context(), probe.Target{PodIP: c.ip, Timeout: time.Minute, Container: &v1.Container{},
			Probe: &v1.Probe{ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: c.path,
				Port: intstr.FromInt32(8080)}}}})
		if o.Result != probe.Success || dialed != "tcp "+c.address || host != c.address || asks != c.asks {
			t.Errorf("%s %q: %+v, dialed %s, asked %s of %s, want %s of %s", c.ip, c.path, o, dialed, asks, host,
				c.asks, c.address)
		}
	}
}

// row: PRB-04
// row: PRB-06
// row: PRB-07
func TestRequest(t *testing.T) {
	var seen *http.Request
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) { seen = r })
	to := target(t, server, "/healthz?deep=1")
	if o := prober.Probe(t.Context(), to); o.Result != probe.Success {
		t.Fatalf("got %v, want Result Success", o)
	}
	host := strings.TrimPrefix(server, "http://")
	if seen.Host != host || seen.URL.String() != "/healthz?deep=1" || seen.ContentLength != 0 ||
		seen.Method != http.MethodGet ||
		seen.UserAgent() != "kube-probe/1.37" || seen.Header.Get("Accept") != "*/*" ||
		seen.Header.Get("Accept-Encoding") != "" || !seen.Close {
		t.Errorf("sent %s %s to %s with %v", seen.Method, seen.URL, seen.Host, seen.Header)
	}
	get := to.Probe.HTTPGet
	get.HTTPHeaders = []v1.HTTPHeader{{Name: "Host", Value: "web.example"}, {Name: "X-A", Value: "1"},
		{Name: "X-A", Value: "2"}, {Name: "user-agent", Value: "me"}, {Name: "Accept", Value: ""}}
	get.Scheme = ""
	prober.Probe(t.Context(), to)
	if _, accept := seen.Header["Accept"]; seen.Host != "web.example" || fmt.Sprint(seen.Header["X-A"]) != "[1 2]" ||
		seen.UserAgent() != "me" || accept {
		t.Errorf("sent to %s with %v", seen.Host, seen.Header)
	}
	number := int32(get.Port.IntValue())
	to.Container = &v1.Container{Ports: []v1.ContainerPort{{Name: "first", ContainerPort: 1},
		{Name: "web", ContainerPort: number}, {ContainerPort: 2}, {Name: "last", ContainerPort: 3}}}
	for _, port := range []intstr.IntOrString{intstr.FromString("web"), intstr.FromString(strconv.Itoa(int(number)))} {
		seen, get.Port = nil, port
		if o := prober.Probe(t.Context(), to); o.Result != probe.Success || seen == nil {
			t.Errorf("port %q of a container with three names: %+v, want it asked at %d", port.StrVal, o, number)
		}
	}
	to.PodIP, get.Host = "192.0.2.1", "127.0.0.1"
	if o := prober.Probe(t.Context(), to); o.Result != probe.Success {
		t.Errorf("httpGet.host is not used: %+v", o)
	}
}

// Redirects are followed on the same host only; see FEATURES U-16 for the difference from the row's
// text.
//
// row: PRB-05
func TestRedirects(t *testing.T) {
	asked := 0
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch r.URL.Path {
		case "/away": // recordings/pods/readiness-http-redirect
			http.Redirect(w, r, "http://other.invalid/", http.StatusFound)
		case "/here":
			http.Redirect(w, r, "/sick", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		case "/sick":
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	if o := prober.Probe(t.Context(), target(t, server, "/away")); o.Result != probe.Warning ||
		!strings.HasPrefix(o.Output,
			"Probe terminated redirects, Response body: <a href=\"http://other.invalid/\">Found</a>.") {
		t.Errorf("to another host: %+v", o)
	}
	if o := prober.Probe(t.Context(), target(t, server, "/here")); o.Result != probe.Failure ||
		o.Output != "HTTP probe failed with statuscode: 503" {
		t.Errorf("to a sick page here: %+v", o)
	}
	asked = 0
	if o := prober.Probe(t.Context(), target(t, server, "/round")); o.Result != probe.Failure || asked != 10 ||
		!strings.HasSuffix(o.Output, "stopped after 10 redirects") {
		t.Errorf("in a circle, %d asked: %+v", asked, o)
	}
}

// row: PRB-08
func TestTLS(t *testing.T) {
	self := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer self.Close()
	if o := prober.Probe(t.Context(), target(t, self.URL, "/")); o.Result != probe.Success {
		t.Errorf("self-signed: %+v", o)
	}
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	to := target(t, strings.Replace(plain, "http:", "https:", 1), "/hostname")
	want := fmt.Sprintf("Get %q: http: server gave HTTP response to HTTPS client",
		strings.Replace(plain, "http:", "https:", 1)+"/hostname")
	// recordings/pods/readiness-https
	if o := prober.Probe(t.Context(), to); o.Result != probe.Failure || o.Output != want {
		t.Errorf("got %+v, want %s", o, want)
	}
	elsewhere := target(t, self.URL, "/") // a name that is not in the certificate
	elsewhere.PodIP = "localhost"
	if o := prober.Probe(t.Context(), elsewhere); o.Result != probe.Success {
		t.Errorf("another's certificate: %+v", o)
	}
	strict := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	strict.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	strict.Config.ErrorLog = log.New(io.Discard, "", 0)
	strict.StartTLS()
	defer strict.Close()
	if o := prober.Probe(t.Context(), target(t, strict.URL, "/")); o.Result != probe.Failure || o.Err != nil {
		t.Errorf("a server that asks for a certificate: got %+v, want a failure", o)
	}
}

// The timeout covers the whole request, from the first packet to the last byte of the answer.
//
// row: PRB-09
func TestTimeout(t *testing.T) {
	block := make(chan struct{})
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/endless" {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
		}
		select {
		case <-block:
		case <-r.Context().Done():
		}
	})
	defer close(block)
	slowAccept := prober
	slowAccept.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		select {
		case <-block:
		case <-ctx.Done():
		}
		return nil, context.Cause(ctx)
	}
	for _, tc := range []struct {
		name, path, want string
		prober           probehttp.Prober
	}{
		{"a connection that is not taken", "/", "context deadline exceeded", slowAccept},
		// recordings/pods/liveness-http-timeout
		{"headers that do not come", "/shell?cmd=sleep%208",
			"context deadline exceeded (Client.Timeout exceeded while awaiting headers)", prober},
		{"a body that does not end", "/endless", "", prober},
	} {
		t.Run(tc.name, func(t *testing.T) {
			to := target(t, server, tc.path)
			to.Timeout = 50 * time.Millisecond
			answer := make(chan probe.Outcome, 1)
			go func() { answer <- tc.prober.Probe(t.Context(), to) }()
			select {
			case o := <-answer:
				if o.Result != probe.Failure || !strings.Contains(o.Output, tc.want) ||
					tc.want != "" && !strings.HasPrefix(o.Output, fmt.Sprintf("Get %q: ", server+tc.path)) {
					t.Errorf("got %+v, want a failure that says %q", o, tc.want)
				}
			case <-time.After(30 * time.Second):
				t.Errorf("no answer after 30 s with a timeout of %s", to.Timeout)
			}
		})
	}
}
