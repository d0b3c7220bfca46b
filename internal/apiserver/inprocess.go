package apiserver

import (
	"context"
	"errors"
	"net/http"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	restclient "k8s.io/client-go/rest"
)

// inProcessHost is the host of URLs that never leave the process.
const inProcessHost = "http://gantry.in-process"

// identityKey carries the identity of an in-process client. Nothing that comes over the network can set a context value.
type identityKey struct{}

// trustContext authenticates requests of in-process clients and passes on all others.
type trustContext struct{}

func (trustContext) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	u, ok := req.Context().Value(identityKey{}).(user.Info)
	if !ok {
		return nil, false, nil
	}
	return &authenticator.Response{User: u}, true, nil
}

// errNotUp is what in-process clients get when the server does not get its handler in time.
var errNotUp = errors.New("the API server is not up yet")

// patience is how long a request waits for a server that is still being built.
const patience = 5 * time.Second

// entrance is where in-process requests enter; it opens once, when the handler is complete.
type entrance struct {
	handler http.Handler
	opened  chan struct{}
}

func newEntrance() *entrance { return &entrance{opened: make(chan struct{})} }

// open lets requests in. Call it once.
func (e *entrance) open(h http.Handler) {
	e.handler = h
	close(e.opened)
}

// enter waits for the handler.
func (e *entrance) enter(ctx context.Context) (http.Handler, error) {
	select {
	case <-e.opened:
		return e.handler, ctx.Err()
	default:
	}
	wait := time.NewTimer(patience)
	defer wait.Stop()
	select {
	case <-e.opened:
		return e.handler, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-wait.C:
		return nil, errNotUp
	}
}

// config makes client configuration for an identity.
func (e *entrance) config(u user.Info) *restclient.Config {
	return &restclient.Config{
		Host: inProcessHost,
		QPS:  -1,
		ContentConfig: restclient.ContentConfig{
			ContentType:        runtime.ContentTypeProtobuf,
			AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
		},
		Transport: &inMemory{entrance: e, user: u},
	}
}

// inMemory is a transport that calls the handler chain in this process.
type inMemory struct {
	entrance *entrance
	user     user.Info
}

// RoundTrip runs the request through the whole chain. The answer streams: it returns at the first flush, or when the handler has ended.
func (t *inMemory) RoundTrip(req *http.Request) (*http.Response, error) {
	h, err := t.entrance.enter(req.Context())
	if err != nil {
		closeBody(req)
		return nil, err
	}
	// As over a network, no value of the caller's context passes; its end does.
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), identityKey{}, t.user))
	unhook := context.AfterFunc(req.Context(), cancel)
	w := newPipe(req, cancel)
	go func() {
		defer cancel()
		defer unhook()
		defer closeBody(req)
		w.finish(serve(h, w, inbound(req, ctx)))
	}()
	res, err := w.response(req.Context())
	if req.URL.Query().Get("watch") != "true" {
		return res, err
	}
	switch {
	case errors.Is(err, context.Canceled):
		return nil, hungUp{err}
	case err == nil && res.StatusCode == http.StatusTooManyRequests:
		res.Header.Del("Retry-After") // a server that ends asks to come back; the reflector waits by itself and sees when it is to stop
	}
	return res, err
}

// hungUp is what a watch gets whose caller left before it began. It counts as a refused connection too: reflectors pass over those in silence
// and see that they are to stop, where the bare cancellation would have each of them log an error when the server ends.
type hungUp struct{ error }

// Unwrap gives both causes.
func (h hungUp) Unwrap() []error { return []error{h.error, syscall.ECONNREFUSED} }

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // what the caller sent is not needed any more
	}
}

// inbound is the request as a server sees it.
func inbound(req *http.Request, ctx context.Context) *http.Request {
	in := req.Clone(ctx)
	in.RequestURI = req.URL.RequestURI()
	in.URL.Scheme, in.URL.Host = "", ""
	in.Host = req.URL.Host
	in.Proto, in.ProtoMajor, in.ProtoMinor = "HTTP/2.0", 2, 0
	in.RemoteAddr = "127.0.0.1:0"
	if in.Body == nil {
		in.Body = http.NoBody
	}
	return in
}

// serve calls the handler; a panic becomes an error, as a closed connection would.
func serve(h http.Handler, w http.ResponseWriter, req *http.Request) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errAborted
		}
	}()
	h.ServeHTTP(w, req)
	return nil
}
