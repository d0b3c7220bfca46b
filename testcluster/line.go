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

// wire leads to the API server that runs now. When that is killed, what is under way over it breaks off.
type wire struct {
	mu     sync.Mutex
	server *apiserver.Server // nil while none runs
	life   context.Context   // of server
	end    context.CancelFunc
}

// connect leads to a server from now on.
func (w *wire) connect(s *apiserver.Server) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server = s
	w.life, w.end = context.WithCancel(context.Background())
}

// cut breaks everything off and leads nowhere.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server = nil
	if w.end != nil {
		w.end()
	}
}

func (w *wire) now() (*apiserver.Server, context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.server, w.life
}

// line is one identity's way over the wire. It can be cut by itself for as long as its owner lives.
type line struct {
	wire *wire
	user user.Info
	life context.Context
}

// config makes client configuration for an identity whose owner lives as long as life.
func (w *wire) config(life context.Context, u user.Info) *rest.Config {
	s, _ := w.now()
	cfg := s.InProcess(u)
	cfg.Transport = &line{w, u, life}
	return cfg
}

// RoundTrip carries a request to the server that runs now, or is refused as by a host on which nothing listens.
func (l *line) RoundTrip(req *http.Request) (*http.Response, error) {
	server, life := l.wire.now()
	if server == nil || life.Err() != nil || l.life.Err() != nil {
		if req.Body != nil {
			_ = req.Body.Close() // nobody reads it
		}
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	ctx, cancel := context.WithCancel(req.Context())
	hooks := []func() bool{context.AfterFunc(life, cancel), context.AfterFunc(l.life, cancel)}
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
	res.Body = &answer{res.Body, done}
	return res, nil
}

// answer is a body that lets go of the line when it is closed.
type answer struct {
	io.ReadCloser
	done func()
}

// Close ends the answer.
func (a *answer) Close() error {
	defer a.done()
	return a.ReadCloser.Close()
}
