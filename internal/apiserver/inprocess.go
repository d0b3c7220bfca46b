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

// identityKey carries the identity of an in-process client. Nothing that comes over the network can
// set a context value.
type identityKey struct{}

// contextAuthenticator authenticates requests of in-process clients and passes on all others.
type contextAuthenticator struct{}

func (contextAuthenticator) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	u, ok := req.Context().Value(identityKey{}).(user.Info)
	if !ok {
		return nil, false, nil
	}
	return &authenticator.Response{User: u}, true, nil
}

// errHandlerNotReady is what in-process clients get when the server does not get its handler in
// time.
var errHandlerNotReady = errors.New("the API server is not up yet")

// handlerWaitTimeout is how long a request waits for a server that is still being built.
const handlerWaitTimeout = 5 * time.Second

// inProcessHandler is where in-process requests enter; it opens once, when the handler is complete.
type inProcessHandler struct {
	handler http.Handler
	ready   chan struct{}
}

func newInProcessHandler() *inProcessHandler { return &inProcessHandler{ready: make(chan struct{})} }

// set lets requests in. Call it once.
func (e *inProcessHandler) set(h http.Handler) {
	e.handler = h
	close(e.ready)
}

// wait waits for the handler.
func (e *inProcessHandler) wait(ctx context.Context) (http.Handler, error) {
	select {
	case <-e.ready:
		return e.handler, ctx.Err()
	default:
	}
	wait := time.NewTimer(handlerWaitTimeout)
	defer wait.Stop()
	select {
	case <-e.ready:
		return e.handler, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-wait.C:
		return nil, errHandlerNotReady
	}
}

// clientConfig makes client configuration for an identity.
func (e *inProcessHandler) clientConfig(u user.Info) *restclient.Config {
	return &restclient.Config{
		Host: inProcessHost,
		QPS:  -1,
		ContentConfig: restclient.ContentConfig{
			ContentType:        runtime.ContentTypeProtobuf,
			AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
		},
		Transport: &inProcessTransport{target: e, user: u},
	}
}

// inProcessTransport is a transport that calls the handler chain in this process.
type inProcessTransport struct {
	target *inProcessHandler
	user   user.Info
}

// RoundTrip runs the request through the whole chain. The answer streams: it returns at the first
// flush, or when the handler has ended.
func (t *inProcessTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	h, err := t.target.wait(req.Context())
	if err != nil {
		closeBody(req)
		return nil, err
	}
	// As over a network, no value of the caller's context passes; its end does.
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), identityKey{}, t.user))
	unhook := context.AfterFunc(req.Context(), cancel)
	w := newInProcessResponse(req, cancel)
	go func() {
		defer cancel()
		defer unhook()
		defer closeBody(req)
		w.finish(serveRecovered(h, w, serverRequest(req, ctx)))
	}()
	res, err := w.response(req.Context())
	if req.URL.Query().Get("watch") != "true" {
		return res, err
	}
	switch {
	case errors.Is(err, context.Canceled):
		return nil, callerGoneError{err}
	case err == nil && res.StatusCode == http.StatusTooManyRequests:
		// a server that ends asks to come back; the reflector waits by itself and sees when it is
		// to stop
		res.Header.Del("Retry-After")
	}
	return res, err
}

// callerGoneError is what a watch gets whose caller left before it began. It counts as a refused
// connection too: reflectors pass over those in silence and see that they are to stop, where the
// bare cancellation would have each of them log an error when the server ends.
type callerGoneError struct{ error }

// Unwrap gives both causes.
func (h callerGoneError) Unwrap() []error { return []error{h.error, syscall.ECONNREFUSED} }

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // what the caller sent is not needed any more
	}
}

// serverRequest is the request as a server sees it.
func serverRequest(req *http.Request, ctx context.Context) *http.Request {
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

// serveRecovered calls the handler; a panic becomes an error, as a closed connection would.
func serveRecovered(h http.Handler, w http.ResponseWriter, req *http.Request) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errAborted
		}
	}()
	h.ServeHTTP(w, req)
	return nil
}
