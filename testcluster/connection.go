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

// apiConnection leads to the API server that runs now. When that is killed, what is under way over
// it breaks off.
type apiConnection struct {
	mu      sync.Mutex
	server  *apiserver.Server // nil while none runs
	context context.Context   // of server
	cancel  context.CancelFunc
}

// connect leads to a server from now on.
func (w *apiConnection) connect(s *apiserver.Server) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server = s
	w.context, w.cancel = context.WithCancel(context.Background())
}

// disconnect breaks everything off and leads nowhere.
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

// apiTransport is one identity's way over the wire. It can be cut by itself for as long as its
// owner lives.
type apiTransport struct {
	connection *apiConnection
	user       user.Info
	context    context.Context
}

// config makes client configuration for an identity whose owner lives as long as life.
func (w *apiConnection) config(life context.Context, u user.Info) *rest.Config {
	s, _ := w.current()
	cfg := s.InProcess(u)
	cfg.Transport = &apiTransport{w, u, life}
	return cfg
}

// RoundTrip carries a request to the server that runs now, or is refused as by a host on which
// nothing listens.
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

// trackedBody is a body that lets go of the line when it is closed.
type trackedBody struct {
	io.ReadCloser
	release func()
}

// Close ends the answer.
func (a *trackedBody) Close() error {
	defer a.release()
	return a.ReadCloser.Close()
}
