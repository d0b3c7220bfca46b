package cri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

const (
	// bytes of one response; a node with many containers exceeds gRPC's 4 MiB
	maxMessage      = 64 << 20
	defaultTimeout  = 2 * time.Minute        // KubeletConfiguration.runtimeRequestTimeout
	firstRetryDelay = 20 * time.Millisecond  // first delay before reconnecting
	maxRetryDelay   = 500 * time.Millisecond // longest delay; containerd is back 0.2 s after it was killed
)

// Options configure a Client.
type Options struct {
	Endpoint       string        // unix:///path or /path; required
	ImageEndpoint  string        // for a runtime with a separate image service; empty: Endpoint
	Journal        journal.Sink  // gets a journal.Called per changing call; nil: none
	Timeout        time.Duration // of one call; 0: 2 minutes
	ConnectTimeout time.Duration // how long Dial waits for the first response; 0: Timeout
	// Dial fails at once if nothing listens; otherwise it waits for a runtime that is starting
	FailFast bool

	// OnCall is called after each unary call, reading ones too, for metrics; may be nil.
	OnCall func(method string, took time.Duration, err error)
	// OnMessage is called with the request of each unary call and its response, nil after an error,
	// for debugging. They contain secrets (image credentials, environments). May be nil.
	OnMessage func(request, answer proto.Message)

	// Dialer opens the connection; nil dials the unix socket at the given path. Tests pass an
	// in-memory one.
	Dialer func(ctx context.Context, path string) (net.Conn, error)
}

// Client is a connection to one runtime (and its image service). It reconnects until it is closed,
// and is safe for concurrent use.
type Client struct {
	conns   []*grpc.ClientConn
	runtime runtimeService
	images  imageService
	version *runtimeapi.VersionResponse
	signals signals
	cancel  context.CancelFunc // stops watching the connections
}

// Dial connects and checks the API version. Its error names the endpoint and says whether nothing
// listens there, nothing answers, or another API is served. The caller closes the Client.
func Dial(ctx context.Context, o Options) (*Client, error) {
	o = withDefaults(o)
	if o.FailFast {
		if err := o.waitListening(ctx); err != nil {
			return nil, err
		}
	}
	signs := newSignals()
	conn, err := connect(o.Endpoint, o, signs)
	if err != nil {
		return nil, err
	}
	follow, quit := context.WithCancel(context.WithoutCancel(ctx))
	c := &Client{conns: []*grpc.ClientConn{conn.conn}, signals: signs, cancel: quit}
	images := conn
	if o.ImageEndpoint != "" && o.ImageEndpoint != o.Endpoint {
		if images, err = connect(o.ImageEndpoint, o, signs); err != nil {
			_ = c.Close()
			return nil, err
		}
		c.conns = append(c.conns, images.conn)
	}
	refs := newRefs()
	log := &callLog{sink: o.Journal, refs: refs}
	c.runtime = runtimeService{api: runtimeapi.NewRuntimeServiceClient(conn.conn), timeout: o.Timeout, log: log}
	c.images = imageService{api: runtimeapi.NewImageServiceClient(images.conn), timeout: o.Timeout, log: log}
	if c.version, err = c.negotiateVersion(ctx, o); err != nil {
		_ = c.Close()
		return nil, err
	}
	go signs.watchConnection(follow, conn.conn)
	return c, nil
}

func withDefaults(o Options) Options {
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = o.Timeout
	}
	if o.Journal == nil {
		o.Journal = journal.Discard{}
	}
	if o.Dialer == nil {
		o.Dialer = func(ctx context.Context, path string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	}
	return o
}

type connection struct{ conn *grpc.ClientConn }

func connect(endpoint string, o Options, signs signals) (connection, error) {
	path, err := SocketPath(endpoint)
	if err != nil {
		return connection{}, err
	}
	conn, err := grpc.NewClient("passthrough:///"+path,
		grpc.WithChainUnaryInterceptor(o.instrument, signs.intercept),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return o.Dialer(ctx, path) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithIdleTimeout(0),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: firstRetryDelay, Multiplier: 1.6, Jitter: 0.1,
				MaxDelay: maxRetryDelay},
			MinConnectTimeout: 5 * time.Second,
		}))
	if err != nil {
		return connection{}, fmt.Errorf("container runtime endpoint %q: %w", endpoint, err)
	}
	return connection{conn}, nil
}

// instrument calls OnCall and OnMessage for a call.
func (o Options) instrument(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if o.OnCall == nil && o.OnMessage == nil {
		return call(ctx, method, req, reply, cc, opts...)
	}
	startedAt := time.Now()
	err := call(ctx, method, req, reply, cc, opts...)
	if o.OnCall != nil {
		o.OnCall(method[strings.LastIndexByte(method, '/')+1:], time.Since(startedAt), err)
	}
	if request, ok := req.(proto.Message); ok && o.OnMessage != nil {
		answer, _ := reply.(proto.Message)
		if err != nil {
			answer = nil
		}
		o.OnMessage(request, answer)
	}
	return err
}

// SocketPath parses an endpoint: unix:///path or an absolute path. Its error names the endpoint and
// the expected form.
func SocketPath(endpoint string) (string, error) {
	path, found := strings.CutPrefix(endpoint, "unix://")
	switch {
	case endpoint == "":
		return "", errors.New(
			"container runtime endpoint is empty: set containerRuntimeEndpoint or --container-runtime-endpoint to " +
				"unix:///path/of/socket")
	case !found && strings.Contains(endpoint, "://"):
		return "", fmt.Errorf(
			"container runtime endpoint %q: only unix sockets are spoken to: use unix:///path/of/socket", endpoint)
	case !filepath.IsAbs(path):
		return "", fmt.Errorf("container runtime endpoint %q: the socket's path is not absolute: use "+
			"unix:///path/of/socket", endpoint)
	}
	return filepath.Clean(path), nil
}

func (c *Client) negotiateVersion(ctx context.Context, o Options) (*runtimeapi.VersionResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
	defer cancel()
	var v *runtimeapi.VersionResponse
	err := until(ctx, func() (err error) {
		v, err = c.runtime.api.Version(ctx, &runtimeapi.VersionRequest{Version: "v1"}, grpc.WaitForReady(true))
		return err
	})
	if err != nil {
		return nil, describeDialError(o.Endpoint, "runtime.v1.RuntimeService", err)
	}
	if v.RuntimeName == "" || v.RuntimeApiVersion == "" {
		return nil, fmt.Errorf("container runtime endpoint %q: its Version answer leaves runtime_name or "+
			"runtime_api_version empty", o.Endpoint)
	}
	if v.RuntimeApiVersion != "v1" {
		return nil, fmt.Errorf("container runtime endpoint %q: %s speaks CRI %q, and v1 is needed: update the runtime",
			o.Endpoint, v.RuntimeName, v.RuntimeApiVersion)
	}
	endpoint := o.ImageEndpoint
	if endpoint == "" {
		endpoint = o.Endpoint
	}
	err = until(ctx, func() error {
		_, err := c.images.api.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{}, grpc.WaitForReady(true))
		return err
	})
	if err != nil {
		return nil, describeDialError(endpoint, "runtime.v1.ImageService", err)
	}
	return v, nil
}

// until repeats ask while the runtime dies during the call, until ctx ends.
func until(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if status.Code(err) != codes.Unavailable {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(firstRetryDelay):
		}
	}
}

// IsUnavailable reports whether an error of Dial or of a call means that nothing answers on the
// runtime's socket now; it may come back.
func IsUnavailable(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded:
		return true
	}
	return false
}

// waitListening connects once to each socket; it returns why that failed.
func (o Options) waitListening(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
	defer cancel()
	for _, endpoint := range []string{o.Endpoint, o.ImageEndpoint} {
		if endpoint == "" && o.Endpoint != "" {
			continue // there is no separate image service
		}
		path, err := SocketPath(endpoint)
		if err != nil {
			return err
		}
		conn, err := o.Dialer(ctx, path)
		switch {
		case err == nil:
			_ = conn.Close() // it only tested whether something listens
		case errors.Is(err, os.ErrNotExist):
			return fmt.Errorf("container runtime endpoint %q: there is no socket: is the container runtime running? %w",
				endpoint, err)
		case errors.Is(err, os.ErrPermission):
			return fmt.Errorf("container runtime endpoint %q: this process may not open the socket: try as root: %w",
				endpoint, err)
		case errors.Is(err, unix.ECONNREFUSED):
			return fmt.Errorf("container runtime endpoint %q: nobody listens on the socket: is the container runtime "+
				"running? %w", endpoint, err)
		default:
			return fmt.Errorf("container runtime endpoint %q: %w", endpoint, err)
		}
	}
	return nil
}

// describeDialError turns a failed Dial into a sentence with a remedy.
func describeDialError(endpoint, service string, err error) error {
	path, _ := SocketPath(endpoint)
	switch status.Code(err) {
	case codes.Unimplemented:
		return fmt.Errorf("container runtime endpoint %q answers but does not serve %s: is its CRI plugin enabled, "+
			"and is it recent enough for CRI v1? %w", endpoint, service, err)
	case codes.DeadlineExceeded, codes.Unavailable, codes.Canceled:
		if _, statErr := os.Stat(path); errors.Is(statErr, os.ErrNotExist) {
			return fmt.Errorf("container runtime endpoint %q: there is no socket: is the container runtime running? %w",
				endpoint, err)
		}
		return fmt.Errorf("container runtime endpoint %q does not answer: is the container runtime running, and may "+
			"this process open its socket? %w", endpoint, err)
	default:
		return fmt.Errorf("container runtime endpoint %q: %w", endpoint, err)
	}
}

// Runtime returns the RuntimeService; its changing calls and ExecSync are journaled.
func (c *Client) Runtime() internalapi.RuntimeService { return &c.runtime }

// ProbeRuntime returns the same RuntimeService without ExecSync in the journal: probes journal
// their results.
func (c *Client) ProbeRuntime() internalapi.RuntimeService {
	p := c.runtime
	p.unlogged = true
	return &p
}

// Images returns the ImageManagerService.
func (c *Client) Images() internalapi.ImageManagerService { return &c.images }

// Version returns the runtime's answer at Dial.
func (c *Client) Version() *runtimeapi.VersionResponse { return c.version }

// Close closes the connections. The services' own Close does nothing, so that one user of a service
// cannot close it for others.
func (c *Client) Close() error {
	c.cancel()
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}
