package apiwriter

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// ErrNotSent ends calls that the API server has certainly not acted upon.
var ErrNotSent = errors.New("not sent")

// ErrLost ends calls whose connection broke: whether the API server acted upon them is not known.
var ErrLost = errors.New("connection lost before the answer came")

const (
	dialTimeout     = 10 * time.Second // to connect
	redialDelay     = time.Second      // between attempts to connect
	maxWaitingCalls = 1 << 14          // most calls that wait for a stream
)

// Request is any write to the API server.
type Request struct {
	Method, Path string
	Type         string // of the body; empty: protobuf
	Body         []byte
}

// Response is the API server's answer to a write.
type Response struct {
	method     string
	Code       int
	Body       []byte
	RetryAfter string // Retry-After, as sent
}

// Writer makes writes over one connection, which it opens when it is needed. Any goroutine may call
// its methods.
type Writer struct {
	cfg   *rest.Config
	url   *url.URL
	agent string
	token func() (string, error) // nil: none

	mu          sync.Mutex
	conn        *connection
	lastFailure time.Time // when connecting failed last
}

// New makes a Writer for the API server of a client configuration; nil when the configuration asks
// for something that only the ordinary client does (see the package).
func New(cfg *rest.Config) *Writer {
	switch {
	case cfg == nil, cfg.Transport != nil, cfg.WrapTransport != nil, cfg.Dial != nil, cfg.Proxy != nil,
		cfg.ExecProvider != nil, cfg.AuthProvider != nil,
		cfg.Username != "", cfg.Impersonate.UserName != "", cfg.QPS >= 0, cfg.RateLimiter != nil:
		return nil
	}
	at, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil || at.Scheme != "https" {
		return nil
	}
	if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: at}); err != nil || proxy != nil {
		return nil
	}
	p := &Writer{cfg: rest.CopyConfig(cfg), url: at, agent: cfg.UserAgent}
	switch {
	case cfg.BearerTokenFile != "":
		source := transport.NewCachedFileTokenSource(cfg.BearerTokenFile)
		p.token = func() (string, error) {
			t, err := source.Token()
			if err != nil {
				return "", err
			}
			return t.AccessToken, nil
		}
	case cfg.BearerToken != "":
		p.token = func() (string, error) { return cfg.BearerToken, nil }
	}
	return p
}

// Create posts an object (protobuf, see Encode) to a path and waits for the answer. The error is
// ErrNotSent, ErrLost or the end of ctx; what the API server refused is in the Response.
func (p *Writer) Create(ctx context.Context, path string, body []byte) (Response, error) {
	return p.Do(ctx, Request{Method: http.MethodPost, Path: path, Body: body})
}

// Do makes any request and waits for the answer, as Create does.
func (p *Writer) Do(ctx context.Context, r Request) (Response, error) {
	type result struct {
		a   Response
		err error
	}
	done := make(chan result, 1)
	p.send(ctx, &call{Request: r, sending: sendNow, done: func(a Response, err error) { done <- result{a, err} }})
	select {
	case r := <-done:
		return r.a, r.err
	case <-ctx.Done():
		return Response{}, context.Cause(ctx)
	}
}

// CreateAsync posts an object and calls then with the answer, from a goroutine that then must not
// block. Calls of Create, Do and Queue go first.
func (p *Writer) CreateAsync(ctx context.Context, path string, body []byte, then func(Response, error)) {
	p.send(ctx, &call{Request: Request{Method: http.MethodPost, Path: path, Body: body}, sending: sendAfterOthers,
		done: then})
}

// Queue posts an object with the next Flush, or sooner, and calls then with the answer, from a
// goroutine that then must not block. False: no connection is open and nothing was done.
func (p *Writer) Queue(path string, body []byte, then func(Response, error)) bool {
	l := p.openConnection()
	if l == nil || !l.isOpen() {
		return false
	}
	c := &call{Request: Request{Method: http.MethodPost, Path: path, Body: body}, sending: sendOnFlush,
		done: then}
	if p.token != nil {
		var err error
		if c.token, err = p.token(); err != nil {
			return false // Create says what is wrong
		}
	}
	l.startOrQueue(c)
	return true
}

// Flush writes the calls of Queue to the connection.
func (p *Writer) Flush() {
	if l := p.openConnection(); l != nil {
		l.flush()
	}
}

func (p *Writer) openConnection() *connection {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conn
}

// send puts a call on the connection, which it opens if need be. Without a connection or a token
// the call ends with ErrNotSent at once.
func (p *Writer) send(ctx context.Context, c *call) {
	l, err := p.connection(ctx)
	if err == nil && p.token != nil {
		c.token, err = p.token()
	}
	if err != nil {
		c.done(Response{}, fmt.Errorf("%w: %w", ErrNotSent, err))
		return
	}
	l.startOrQueue(c)
}

// Close ends the connection once all calls have their answers, or ctx ends.
func (p *Writer) Close(ctx context.Context) {
	l := p.openConnection()
	if l == nil {
		return
	}
	select {
	case <-l.idle():
	case <-l.closed:
	case <-ctx.Done():
	}
	l.closeWith(net.ErrClosed)
}

// connection is the connection that new calls may go over.
func (p *Writer) connection(ctx context.Context) (*connection, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil && p.conn.isOpen() {
		return p.conn, nil
	}
	if time.Since(p.lastFailure) < redialDelay {
		return nil, errors.New("connecting failed a moment ago")
	}
	l, err := p.connect(ctx)
	if err != nil {
		p.lastFailure = time.Now()
		return nil, err
	}
	p.conn = l
	return l, nil
}

// connect dials the API server with TLS and HTTP/2, within dialTimeout. Certificates are read anew:
// files may have been renewed.
func (p *Writer) connect(ctx context.Context) (*connection, error) {
	config, err := rest.TLSConfigFor(p.cfg) // files may have been renewed
	if err != nil {
		return nil, err
	}
	if config == nil {
		config = &tls.Config{}
	}
	config.NextProtos = []string{http2.NextProtoTLS}
	if config.MinVersion == 0 {
		config.MinVersion = tls.VersionTLS12
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	host := p.url.Host
	if p.url.Port() == "" {
		host = net.JoinHostPort(p.url.Hostname(), "443")
	}
	plain, err := (&net.Dialer{}).DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(host) // host was joined, or has a port
	}
	gathered := newBatchedConn(plain, busyWakeBytes)
	conn := tls.Client(gathered, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = plain.Close()
		return nil, err
	}
	if got := conn.ConnectionState().NegotiatedProtocol; got != http2.NextProtoTLS {
		_ = conn.Close()
		return nil, fmt.Errorf("the API server speaks %q, not HTTP/2", got)
	}
	return newConnection(conn, gathered,
		commonHeaders{authority: p.url.Host, prefix: strings.TrimSuffix(p.url.Path, "/"), agent: p.agent})
}
