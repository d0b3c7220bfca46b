package apiserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// ask sends one request through the in-memory transport to a handler.
func ask(t *testing.T, ctx context.Context, h http.HandlerFunc) (*http.Response, error) {
	t.Helper()
	e := newInProcessHandler()
	e.set(h)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, inProcessHost+"/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	return (&inProcessTransport{target: e, user: admin()}).RoundTrip(req)
}

func TestPipeAnswersAtOnceWhenFlushed(t *testing.T) {
	more := make(chan struct{})
	res, err := ask(t, t.Context(), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-A", "1")
		_, _ = io.WriteString(w, "first ")
		w.(http.Flusher).Flush()
		w.Header().Set("X-A", "2") // too late
		<-more
		_, _ = io.WriteString(w, "second")
	})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b := make([]byte, 6)
	if _, err := io.ReadFull(res.Body, b); err != nil || string(b) != "first " || res.Header.Get("X-A") != "1" {
		t.Fatalf("got %q %v %v, want no error, b first and Get 1", b, res.Header, err)
	}
	close(more)
	rest, err := io.ReadAll(res.Body)
	if err != nil || string(rest) != "second" {
		t.Errorf("got %q %v, want no error and rest second", rest, err)
	}
}

func TestPipeMakesTheHandlerWaitForTheReader(t *testing.T) {
	big := bytes.Repeat([]byte("x"), unreadLimit)
	wrote := make(chan int, 8)
	res, err := ask(t, t.Context(), func(w http.ResponseWriter, _ *http.Request) {
		for i := range 4 {
			_, _ = w.Write(big)
			wrote <- i
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	<-wrote
	got, err := io.ReadAll(res.Body)
	if err != nil || len(got) != 4*unreadLimit {
		t.Errorf("%d bytes, %v, want no error, %v", len(got), err, 4*unreadLimit)
	}
}

func TestPipeEndsTheRequest(t *testing.T) {
	ended := make(chan error, 2)
	wait := func(w http.ResponseWriter, req *http.Request) {
		w.(http.Flusher).Flush()
		<-req.Context().Done()
		_, err := io.WriteString(w, strings.Repeat("y", 2*unreadLimit))
		if err == nil {
			_, err = io.WriteString(w, "z")
		}
		ended <- err
	}
	res, err := ask(t, t.Context(), wait)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close() // the client closes the answer
	ctx, cancel := context.WithCancel(t.Context())
	res, err = ask(t, ctx, wait)
	if err != nil {
		t.Fatal(err)
	}
	cancel() // the client's context ends
	_, err = io.ReadAll(res.Body)
	_ = err
	if err := res.Body.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case _ = <-ended:
		case <-time.After(time.Minute):
			t.Fatal("the handler does not learn that the client is gone")
		}
	}
}

func TestPipePassesNoValuesButTheIdentity(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "leak")
	res, err := ask(t, ctx, func(_ http.ResponseWriter, req *http.Request) {
		if req.Context().Value(key{}) != nil {
			t.Error("a value of the caller's context passed")
		}
		r, ok, err := contextAuthenticator{}.AuthenticateRequest(req)
		if !ok || err != nil || r.User.GetName() != "admin" {
			t.Errorf("identity: %v %v %v", r, ok, err)
		}
	})
	if err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("got %v %v, want no error and StatusCode StatusOK", res, err)
	}
}

func TestPipeTurnsAPanicIntoABrokenAnswer(t *testing.T) {
	if _, err := ask(t, t.Context(),
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }); !errors.Is(err, errAborted) {
		t.Errorf("before the answer: %v", err)
	}
	res, err := ask(t, t.Context(), func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(res.Body)
	if string(got) != "half" || !errors.Is(err, errAborted) {
		t.Errorf("got %q %v, want it half and an error %v", got, err, errAborted)
	}
}

// A reflector that is stopped while its watch begins must not log an error: client-go passes over
// refused connections only.
func TestCancelledWatchLogsNoError(t *testing.T) {
	for _, tt := range []struct {
		query string
		early bool // before the request, not while it is answered
		want  bool
	}{{"?watch=true", false, true}, {"?watch=true", true, true}, {"", false, false}, {"", true, false}} {
		ctx, cancel := context.WithCancel(t.Context())
		e := newInProcessHandler()
		e.set(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			cancel()
			<-req.Context().Done()
		}))
		if tt.early {
			cancel()
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, inProcessHost+"/x"+tt.query, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = (&http.Client{Transport: &inProcessTransport{target: e, user: admin()}}).Do(req)
		if !errors.Is(err, context.Canceled) || utilnet.IsConnectionRefused(err) != tt.want {
			t.Errorf("%+v: got %v, want an error Canceled and utilnet.IsConnectionRefused(err) %v", tt, err, tt.want)
		}
	}
}

// While the server stops, a watch that it ends, or does not begin, stays silent until its caller
// leaves or the server has stopped; other requests are answered.
func TestWatchesOfAStoppingServerAreSilent(t *testing.T) {
	for name, tt := range map[string]struct {
		query  string
		begun  bool // the watch has begun when the server begins to stop
		leaves bool // its caller leaves; else the server stops
		held   bool
	}{
		"a watch that is ended":                {"?watch=true", true, false, true},
		"a watch that is ended, caller leaves": {"?watch=true", true, true, true},
		"a watch that is refused":              {"?watch=true", false, true, true},
		"another request":                      {"", true, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				e, ends := newInProcessHandler(), make(chan struct{})
				e.set(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					if !tt.begun {
						w.WriteHeader(http.StatusTooManyRequests)
						return
					}
					w.(http.Flusher).Flush()
					<-ends
				}))
				over := make(chan struct{})
				go func() {
					defer close(over)
					req, _ := http.NewRequestWithContext(ctx, http.MethodGet, inProcessHost+"/x"+tt.query, nil)
					res, err := (&inProcessTransport{target: e, user: admin()}).RoundTrip(req)
					if err != nil {
						return
					}
					go func() { // as client-go does
						<-ctx.Done()
						res.Body.Close()
					}()
					_, _ = io.ReadAll(res.Body)
				}()
				if tt.begun {
					synctest.Wait()
				}
				e.stop()
				close(ends)
				synctest.Wait()
				if isOver := isClosed(over); isOver == tt.held {
					t.Errorf("got over %t while the server stops, want %t", isOver, !tt.held)
				}
				if tt.leaves {
					leave()
				} else {
					e.close()
				}
				synctest.Wait()
				if !isClosed(over) {
					t.Error("got no end, want one")
				}
			})
		})
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
