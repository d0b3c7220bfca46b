package post

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
	dialTime = 10 * time.Second // to connect
	pause    = time.Second      // between attempts to connect
	mostWait = 1 << 14          // calls that wait for a stream
)

// Request is a write that Post, which creates objects, is not for.
type Request struct {
	Method, Path string
	Type         string // of the body; empty: protobuf
	Body         []byte
}

// Answer is what the API server said.
type Answer struct {
	method string
	Code   int
	Body   []byte
	After  string // Retry-After, as sent
}

// Poster posts. All its methods may be called at once.
type Poster struct {
	cfg   *rest.Config
	url   *url.URL
	agent string
	token func() (string, error) // nil: none

	mu     sync.Mutex
	now    *line
	broken time.Time // when connecting failed last
}

// New gives nil for configurations that want what only the ordinary client does.
func New(cfg *rest.Config) *Poster {
	switch {
	case cfg == nil, cfg.Transport != nil, cfg.WrapTransport != nil, cfg.Dial != nil, cfg.Proxy != nil, cfg.ExecProvider != nil, cfg.AuthProvider != nil,
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
	p := &Poster{cfg: rest.CopyConfig(cfg), url: at, agent: cfg.UserAgent}
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

// Post waits for the answer. Calls wait for nobody's answer but their own.
func (p *Poster) Post(ctx context.Context, path string, body []byte) (Answer, error) {
	return p.Do(ctx, Request{Method: http.MethodPost, Path: path, Body: body})
}

// Do is Post for any request.
func (p *Poster) Do(ctx context.Context, r Request) (Answer, error) {
	type result struct {
		a   Answer
		err error
	}
	done := make(chan result, 1)
	p.send(ctx, &call{Request: r, first: true, then: func(a Answer, err error) { done <- result{a, err} }})
	select {
	case r := <-done:
		return r.a, r.err
	case <-ctx.Done():
		return Answer{}, context.Cause(ctx)
	}
}

// Send is Post for who does not wait; calls of Post go before. then must not block.
func (p *Poster) Send(ctx context.Context, path string, body []byte, then func(Answer, error)) {
	p.send(ctx, &call{Request: Request{Method: http.MethodPost, Path: path, Body: body}, then: then})
}

// Offer is Post for who does not wait, where a connection is open; false: nothing was done. The call leaves with Flush, or sooner. then must not block.
func (p *Poster) Offer(path string, body []byte, then func(Answer, error)) bool {
	l := p.current()
	if l == nil || !l.open() {
		return false
	}
	c := &call{Request: Request{Method: http.MethodPost, Path: path, Body: body}, first: true, lazy: true, then: then}
	if p.token != nil {
		var err error
		if c.token, err = p.token(); err != nil {
			return false // Post says what is wrong
		}
	}
	l.take(c)
	return true
}

// Flush lets offered calls leave.
func (p *Poster) Flush() {
	if l := p.current(); l != nil {
		l.flush()
	}
}

func (p *Poster) current() *line {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

func (p *Poster) send(ctx context.Context, c *call) {
	l, err := p.line(ctx)
	if err == nil && p.token != nil {
		c.token, err = p.token()
	}
	if err != nil {
		c.then(Answer{}, fmt.Errorf("%w: %w", ErrNotSent, err))
		return
	}
	l.take(c)
}

// Close ends the connection once all calls have their answers, or ctx ends.
func (p *Poster) Close(ctx context.Context) {
	l := p.current()
	if l == nil {
		return
	}
	select {
	case <-l.idle():
	case <-l.dead:
	case <-ctx.Done():
	}
	l.fail(net.ErrClosed)
}

// line is the connection that new calls may go over.
func (p *Poster) line(ctx context.Context) (*line, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now != nil && p.now.open() {
		return p.now, nil
	}
	if time.Since(p.broken) < pause {
		return nil, errors.New("connecting failed a moment ago")
	}
	l, err := p.connect(ctx)
	if err != nil {
		p.broken = time.Now()
		return nil, err
	}
	p.now = l
	return l, nil
}

func (p *Poster) connect(ctx context.Context) (*line, error) {
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
	ctx, cancel := context.WithTimeout(ctx, dialTime)
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
	gathered := newGathering(plain, muchSaid)
	conn := tls.Client(gathered, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = plain.Close()
		return nil, err
	}
	if got := conn.ConnectionState().NegotiatedProtocol; got != http2.NextProtoTLS {
		_ = conn.Close()
		return nil, fmt.Errorf("the API server speaks %q, not HTTP/2", got)
	}
	return newLine(conn, gathered, fixed{authority: p.url.Host, prefix: strings.TrimSuffix(p.url.Path, "/"), agent: p.agent})
}
