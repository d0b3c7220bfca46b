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

// identityKey is the context key of an in-process client's user. Requests over the network cannot
// set context values.
type identityKey struct{}

// contextAuthenticator authenticates requests of in-process clients by identityKey; it has no
// opinion on others.
type contextAuthenticator struct{}

// AuthenticateRequest implements authenticator.Request.
func (contextAuthenticator) AuthenticateRequest(req *http.Request) (*authenticator.Response, bool, error) {
	u, ok := req.Context().Value(identityKey{}).(user.Info)
	if !ok {
		return nil, false, nil
	}
	return &authenticator.Response{User: u}, true, nil
}

// errHandlerNotReady is the error of in-process requests if the handler chain is not built within
// handlerWaitTimeout.
var errHandlerNotReady = errors.New("the API server is not up yet")

// handlerWaitTimeout is how long an in-process request waits for the handler chain to be built.
const handlerWaitTimeout = 5 * time.Second

// inProcessHandler is the handler of in-process requests. Requests wait until set is called. Safe
// for concurrent use.
type inProcessHandler struct {
	handler  http.Handler
	ready    chan struct{}
	stopping context.Context // ends when the server begins to stop, by stop
	stop     func()
	stopped  context.Context // ends when the server has stopped, by close
	close    func()
}

func newInProcessHandler() *inProcessHandler {
	e := &inProcessHandler{ready: make(chan struct{})}
	e.stopping, e.stop = context.WithCancel(context.Background())
	e.stopped, e.close = context.WithCancel(context.Background())
	return e
}

// set sets the handler and lets requests continue. Call it once.
func (e *inProcessHandler) set(h http.Handler) {
	e.handler = h
	close(e.ready)
}

// wait returns the handler when it is set, or errHandlerNotReady, or ctx's error.
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

// holdEndOfWatch has a watch that ends because the server stops stay silent until its caller leaves
// (ctx ends) or the server has stopped; it returns at once while the server does not stop. The
// server ends its watches before it stops its own informers: a reflector that saw the end
// would watch again, and log an error when it is stopped while it asks.
func (e *inProcessHandler) holdEndOfWatch(ctx context.Context) {
	if e.stopping.Err() == nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-e.stopped.Done():
	}
}

// clientConfig returns a client configuration for a user.
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

// inProcessTransport is an http.RoundTripper that calls the handler chain in this process.
type inProcessTransport struct {
	target *inProcessHandler
	user   user.Info
}

// RoundTrip implements http.RoundTripper. The response streams: it is returned at the first flush
// or when the handler has returned. The error of a watch whose caller has left before it began is a
// callerGoneError.
func (t *inProcessTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	isWatch := req.URL.Query().Get("watch") == "true"
	res, err := t.roundTrip(req, isWatch)
	switch {
	case !isWatch:
	case errors.Is(err, context.Canceled):
		return nil, callerGoneError{err}
	case err == nil && res.StatusCode == http.StatusTooManyRequests:
		// the server is shutting down and sends Retry-After; the reflector backs off by itself and
		// notices when it is to stop
		res.Header.Del("Retry-After")
	}
	return res, err
}

func (t *inProcessTransport) roundTrip(req *http.Request, isWatch bool) (*http.Response, error) {
	h, err := t.target.wait(req.Context())
	if err != nil {
		closeBody(req)
		return nil, err
	}
	// As over a network, the caller's context passes its end, but not its values.
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), identityKey{}, t.user))
	unhook := context.AfterFunc(req.Context(), cancel)
	w := newInProcessResponse(req, cancel)
	go func() {
		defer cancel()
		defer unhook()
		defer closeBody(req)
		err := serveRecovered(h, w, serverRequest(req, ctx))
		if isWatch {
			t.target.holdEndOfWatch(ctx)
		}
		w.finish(err)
	}()
	return w.response(req.Context())
}

// callerGoneError is the error of a watch whose caller left before it began. It is also
// ECONNREFUSED: reflectors ignore that and notice that they are to stop, while a bare
// context.Canceled would make each of them log an error when the server shuts down.
type callerGoneError struct{ error }

// Unwrap returns both errors.
func (h callerGoneError) Unwrap() []error { return []error{h.error, syscall.ECONNREFUSED} }

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // the rest of the body is not needed
	}
}

// serverRequest returns the client request as a server receives it.
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

// serveRecovered calls the handler and returns a panic as an error, as the client of a closed
// connection would see it.
func serveRecovered(h http.Handler, w http.ResponseWriter, req *http.Request) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errAborted
		}
	}()
	h.ServeHTTP(w, req)
	return nil
}
