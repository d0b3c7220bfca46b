package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

// Server is the node's HTTPS server. Run is called once.
type Server struct {
	opts     Options
	listener net.Listener
	handler  http.Handler
	health   http.Handler
	slis     http.Handler
}

// New checks the options and takes the port, so that a taken one is known before anything else
// starts.
func New(o Options) (*Server, error) {
	switch {
	case o.TLS == nil:
		return nil, errors.New("kubelet server: Options.TLS is missing: a serving certificate is needed")
	case o.Authenticator == nil || o.Authorizer == nil:
		return nil, errors.New("kubelet server: Options.Authenticator or Options.Authorizer is missing: nothing is " +
			"served without them")
	case o.NodeName == "" || o.Pods == nil || o.Runtime == nil:
		return nil, errors.New("kubelet server: Options.NodeName, Options.Pods or Options.Runtime is missing")
	}
	if o.Metrics == nil {
		o.Metrics = legacyregistry.Handler()
	}
	s := &Server{opts: o, listener: o.Listener}
	if s.listener == nil {
		port := o.Port
		switch {
		case port == 0:
			port = 10250
		case port < 0:
			port = 0
		}
		address := net.JoinHostPort(o.Address, strconv.Itoa(port))
		l, err := net.Listen("tcp", address)
		if err != nil {
			return nil, fmt.Errorf("kubelet server: %w: is another kubelet running? choose another --port", err)
		}
		s.listener = l
	}
	s.health, s.slis = s.healthChecks(), slisOf()
	s.handler = s.authFilter(s.routes())
	return s, nil
}

// ReadOnlyHandler is what the read-only port serves to everybody who reaches it, without TLS: what
// tells of Pods and figures, nothing that acts.
func (s *Server) ReadOnlyHandler() http.Handler {
	open := http.NewServeMux()
	for _, r := range s.readRoutes() {
		open.HandleFunc(r.pattern, r.serve)
	}
	return open
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Handler is what Run serves, authentication and authorization included; TLS is Run's.
func (s *Server) Handler() http.Handler { return s.handler }

// Run serves until ctx ends; streams that are open then are cut.
func (s *Server) Run(ctx context.Context) error {
	conf := s.opts.TLS.Clone()
	if conf.ClientAuth == tls.NoClientCert {
		conf.ClientAuth = tls.RequestClientCert // the authenticator verifies, so that a token is as good
	}
	if conf.MinVersion == 0 {
		conf.MinVersion = tls.VersionTLS12
	}
	if len(conf.NextProtos) == 0 {
		conf.NextProtos = []string{"h2", "http/1.1"}
	}
	srv := &http.Server{
		Handler: s.handler, TLSConfig: conf, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 90 * time.Second,
		MaxHeaderBytes: 1 << 20,
		BaseContext:    func(net.Listener) context.Context { return ctx },
	}
	klog.FromContext(ctx).V(2).Info("Starting to listen", "address", s.listener.Addr().String())
	failed := make(chan error, 1)
	go func() { failed <- srv.ServeTLS(s.listener, "", "") }()
	select {
	case err := <-failed:
		return fmt.Errorf("kubelet server: %w", err)
	case <-ctx.Done():
	}
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), 100*time.Millisecond)
	defer cancel()
	if err := srv.Shutdown(short); err != nil {
		_ = srv.Close()
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("kubelet server: %w", err)
	}
	return nil
}
