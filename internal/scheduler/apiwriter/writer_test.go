package apiwriter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// newAPI is a server over HTTP/2 and a Writer for it.
func newAPI(t *testing.T, response http.HandlerFunc) (*httptest.Server, *Writer) {
	t.Helper()
	s := httptest.NewUnstartedServer(response)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, writerTo(t, s)
}

func writerTo(t *testing.T, s *httptest.Server) *Writer {
	t.Helper()
	p := New(&rest.Config{Host: s.URL, QPS: -1, BearerToken: "secret", UserAgent: "tester",
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if p == nil {
		t.Fatal("an ordinary configuration is not served")
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		p.Close(ctx)
	})
	return p
}

func TestEveryCallGetsItsOwnAnswer(t *testing.T) {
	_, p := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Authorization") != "Bearer secret" ||
			r.UserAgent() != "tester" || r.Header.Get("Content-Type") != "application/vnd.kubernetes.protobuf" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "%s %s", r.URL.Path, strings.Repeat(string(body), 100))
	})
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			path, body := fmt.Sprintf("/a/%d", i), fmt.Sprintf("body %d;", i)
			a, err := p.Create(t.Context(), path, []byte(body))
			if want := path + " " + strings.Repeat(body, 100); err != nil || a.Code != http.StatusCreated ||
				string(a.Body) != want || a.Err() != nil {
				t.Errorf("%s: %d, %d bytes, %v; want %d bytes", path, a.Code, len(a.Body), err, len(want))
			}
		})
	}
	all.Wait()
}

func TestRequestsOfAnyMethod(t *testing.T) {
	_, p := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what is missing shows
		fmt.Fprint(w, r.Method, " ", r.Header.Get("Content-Type"), " ", string(body))
		w.WriteHeader(http.StatusOK)
	})
	for want, r := range map[string]Request{
		"PATCH application/json {}":                   {http.MethodPatch, "/", "application/json", []byte("{}")},
		"DELETE application/vnd.kubernetes.protobuf ": {Method: http.MethodDelete, Path: "/"},
	} {
		if a, err := p.Do(t.Context(), r); err != nil || string(a.Body) != want {
			t.Errorf("%q, %v; want %q", a.Body, err, want)
		}
	}
}

func TestManyBytesInAllPassTheWindows(t *testing.T) {
	_, p := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body) // what is missing shows
		fmt.Fprint(w, n, strings.Repeat("x", 20_000))
	})
	body := make([]byte, 10_000)
	for range 300 { // 3 MB there, 6 MB back
		if a, err := p.Create(t.Context(), "/", body); err != nil || !strings.HasPrefix(string(a.Body), "10000") ||
			len(a.Body) != 20_005 {
			t.Fatalf("%d bytes, %v", len(a.Body), err)
		}
	}
}

func TestRefusalsAreErrorsOfTheAPI(t *testing.T) {
	cases := map[string]struct {
		code  int
		body  func() []byte
		is    func(error) bool
		after time.Duration
	}{
		"status": {http.StatusConflict, func() []byte {
			s := apierrors.NewConflict(schema.GroupResource{Resource: "pods"},
				"p", errors.New("it has a node")).Status()
			s.TypeMeta = metav1.TypeMeta{}
			raw, _ := Encode(schema.GroupVersionKind{Version: "v1", Kind: "Status"}, &s) // a Status can be written
			return raw
		}, apierrors.IsConflict, 0},
		"text": {http.StatusNotFound, func() []byte { return []byte("404 page not found") },
			apierrors.IsNotFound, 0},
		"too many": {http.StatusTooManyRequests, func() []byte { return nil }, apierrors.IsTooManyRequests,
			3 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, p := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
				if c.after > 0 {
					w.Header().Set("Retry-After", "3")
				}
				w.WriteHeader(c.code)
				_, _ = w.Write(c.body()) // the caller waits for it
			})
			a, err := p.Create(t.Context(), "/", nil)
			if err != nil || !c.is(a.Err()) || a.RetryDelay() != c.after {
				t.Errorf("%v, %v, wait %v", err, a.Err(), a.RetryDelay())
			}
		})
	}
}

func TestBodyLargerThanAFrameIsNotSent(t *testing.T) {
	_, p := newAPI(t, func(http.ResponseWriter, *http.Request) {})
	if _, err := p.Create(t.Context(), "/", []byte("small")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Create(t.Context(), "/", make([]byte, 8<<20)); !errors.Is(err, ErrNotSent) {
		t.Errorf("got %v", err)
	}
}

func TestABrokenConnectionLosesWhatIsUnderWayAndIsMadeAnew(t *testing.T) {
	reached := make(chan struct{})
	hold := atomic.Bool{}
	hold.Store(true)
	s, p := newAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if hold.Load() {
			close(reached)
			<-r.Context().Done()
		}
	})
	over := make(chan error, 1)
	p.CreateAsync(t.Context(), "/", []byte("x"), func(_ Response, err error) { over <- err })
	<-reached
	hold.Store(false)
	s.CloseClientConnections()
	if err := <-over; !errors.Is(err, ErrLost) || errors.Is(err, ErrNotSent) {
		t.Errorf("got %v", err)
	}
	if _, err := p.Create(t.Context(), "/", []byte("x")); err != nil {
		t.Errorf("after that: %v, want no error", err)
	}
}

func TestAServerThatLeavesAnswersWhatItHas(t *testing.T) {
	reached, release := make(chan struct{}), make(chan struct{})
	s, p := newAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		close(reached)
		<-release
		w.WriteHeader(http.StatusCreated)
	})
	over := make(chan Response, 1)
	p.CreateAsync(t.Context(), "/", []byte("x"), func(a Response, _ error) { over <- a })
	<-reached
	down := make(chan error, 1)
	go func() { down <- s.Config.Shutdown(t.Context()) }()
	for p.conn.isOpen() { // until it has said that it leaves
		time.Sleep(time.Millisecond)
	}
	if _, err := p.Create(t.Context(), "/", []byte("x")); !errors.Is(err, ErrNotSent) {
		t.Errorf("a call after that: %v", err)
	}
	close(release)
	if a := <-over; a.Code != http.StatusCreated {
		t.Errorf("the call before: %+v", a)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
}

// While the API server allows no further stream, calls of Create and Queue start before those of
// CreateAsync that came first.
func TestCallsOfCreateAsyncWaitForOthers(t *testing.T) {
	reached, release := make(chan struct{}), make(chan struct{})
	paths := make(chan string, 4)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if paths <- r.URL.Path; r.URL.Path == "/first" {
			close(reached)
			<-release
		}
	}))
	s.EnableHTTP2 = true
	s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 1}
	s.StartTLS()
	defer s.Close()
	p := writerTo(t, s)
	over := make(chan error, 4)
	done := func(_ Response, err error) { over <- err }
	p.CreateAsync(t.Context(), "/first", nil, done)
	<-reached
	l := p.openConnection()
	waiting := func(streams, calls int) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.maxStreams == streams && len(l.waiting[0])+len(l.waiting[1]) == calls
	}
	for !waiting(1, 0) { // the settings may be read a moment later
		time.Sleep(time.Millisecond)
	}
	p.CreateAsync(t.Context(), "/async", nil, done)
	go func() {
		_, err := p.Create(t.Context(), "/create", nil)
		over <- err
	}()
	for !waiting(1, 2) {
		time.Sleep(time.Millisecond)
	}
	if !p.Queue("/queue", nil, done) {
		t.Fatal("got nothing queued on an open connection")
	}
	close(release)
	var got []string
	for range 4 {
		if err := <-over; err != nil {
			t.Error(err)
		}
		got = append(got, <-paths)
	}
	if want := []string{"/first", "/create", "/queue", "/async"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUnsupportedConfigurationsUseTheOrdinaryClient(t *testing.T) {
	plain := rest.Config{Host: "https://127.0.0.1:1", QPS: -1}
	for name, change := range map[string]func(*rest.Config){
		"HTTP":     func(c *rest.Config) { c.Host = "http://127.0.0.1:1" },
		"throttle": func(c *rest.Config) { c.QPS = 50 },
		"default":  func(c *rest.Config) { c.QPS = 0 },
		"exec":     func(c *rest.Config) { c.ExecProvider = &clientcmdapi.ExecConfig{} },
		"wrapped": func(c *rest.Config) {
			c.WrapTransport = func(rt http.RoundTripper) http.RoundTripper { return rt }
		},
		"own":      func(c *rest.Config) { c.Transport = http.DefaultTransport },
		"as":       func(c *rest.Config) { c.Impersonate.UserName = "jane" },
		"password": func(c *rest.Config) { c.Username = "jane" },
	} {
		cfg := plain
		change(&cfg)
		if New(&cfg) != nil {
			t.Errorf("%s is served", name)
		}
	}
	p := New(&plain)
	if _, err := p.Create(t.Context(), "/", nil); !errors.Is(err, ErrNotSent) {
		t.Errorf("nobody there: %v", err)
	}
	old := httptest.NewTLSServer(http.NotFoundHandler()) // HTTP/1 alone
	defer old.Close()
	if _, err := writerTo(t, old).Create(t.Context(), "/", nil); !errors.Is(err, ErrNotSent) {
		t.Errorf("HTTP/1: %v", err)
	}
}

func TestRequestsAreEncodedAsTheAPITakesThem(t *testing.T) {
	raw, err := Encode(v1.SchemeGroupVersion.WithKind("Binding"), &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Target: v1.ObjectReference{Kind: "Node", Name: "n"}})
	if err != nil || !strings.HasPrefix(string(raw), "k8s\x00") {
		t.Fatalf("got %q, %v, want no error and raw beginning with k8s\\x00", raw, err)
	}
}
