package testcluster

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/apiserver"
)

// apiConnection connects clients to the current API server. When that is killed, requests in flight
// fail.
type apiConnection struct {
	mu      sync.Mutex
	server  *apiserver.Server // nil: none is running
	context context.Context   // of server
	cancel  context.CancelFunc
}

// connect sets the current server.
func (w *apiConnection) connect(s *apiserver.Server) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server = s
	w.context, w.cancel = context.WithCancel(context.Background())
}

// disconnect aborts all requests and unsets the server.
func (w *apiConnection) disconnect() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server = nil
	if w.cancel != nil {
		w.cancel()
	}
}

func (w *apiConnection) current() (*apiserver.Server, context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.server, w.context
}

// apiTransport is the http.RoundTripper of one identity. It fails when its owner's context ends.
type apiTransport struct {
	connection *apiConnection
	user       user.Info
	context    context.Context
}

// config returns the client configuration for an identity whose owner lives as long as life.
func (w *apiConnection) config(life context.Context, u user.Info) *rest.Config {
	s, _ := w.current()
	cfg := s.InProcess(u)
	cfg.Transport = &apiTransport{w, u, life}
	return cfg
}

// RoundTrip sends a request to the current server, or returns connection refused.
func (l *apiTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	server, life := l.connection.current()
	if server == nil || life.Err() != nil || l.context.Err() != nil {
		if req.Body != nil {
			_ = req.Body.Close() // nobody reads it
		}
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	ctx, cancel := context.WithCancel(req.Context())
	hooks := []func() bool{context.AfterFunc(life, cancel), context.AfterFunc(l.context, cancel)}
	done := func() {
		for _, unhook := range hooks {
			unhook()
		}
		cancel()
	}
	res, err := server.InProcess(l.user).Transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		done()
		if req.Context().Err() == nil && ctx.Err() != nil {
			err = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
		}
		return nil, err
	}
	res.Body = &trackedBody{res.Body, done}
	return res, nil
}

// trackedBody is a response body that ends its request when it is closed.
type trackedBody struct {
	io.ReadCloser
	release func()
}

// Close ends the request.
func (a *trackedBody) Close() error {
	defer a.release()
	return a.ReadCloser.Close()
}
