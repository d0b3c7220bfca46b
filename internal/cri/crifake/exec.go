package crifake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// running returns a running container, or containerd's error.
func (f *Fake) running(id string) (*container, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.container(id)
	if err != nil {
		return nil, err
	}
	if st := c.state(); st != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return nil, status.Errorf(codes.Unknown, "container is in %s state", st)
	}
	return c, nil
}

// errNoCommand is runc's error for a command that does not exist.
type errNoCommand struct{ cmd string }

func (e errNoCommand) Error() string {
	return fmt.Sprintf("failed to exec in container: failed to start exec: OCI runtime exec failed: exec failed: "+
		"unable to start container process: exec: %q: executable file not found in $PATH", e.cmd)
}

// exec runs a command beside the container's main process.
func (c *container) exec(ctx context.Context, cmd []string, std stdio) (int, error) {
	if len(cmd) == 0 {
		return 0, errors.New("exec: no command")
	}
	p := c.proc
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)() // an exec ends with its container
	if c.script.Exec != nil {
		if code, handled := c.script.Exec(p.api(ctx, std), cmd); handled {
			return code, nil
		}
	}
	text, isShell := shellText(cmd)
	if !isShell {
		if _, known := lookup(cmd[0]); !known {
			return 0, errNoCommand{cmd[0]}
		}
		text = quote(cmd)
	}
	code := p.shell(ctx, text, std, false)
	if p.ctx.Err() != nil {
		code = 137
	}
	return code, nil
}

// ExecSync runs a command to its end or, after timeout seconds, kills it and answers
// DeadlineExceeded.
func (f *Fake) ExecSync(ctx context.Context, r *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	c, err := f.running(r.GetContainerId())
	if err != nil {
		return nil, err
	}
	if r.GetTimeout() > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.GetTimeout())*time.Second)
		defer cancel()
	}
	var stdout, stderr bytes.Buffer
	code, err := c.exec(ctx, r.GetCmd(), stdio{nil, &stdout, &stderr})
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, status.Errorf(codes.DeadlineExceeded,
			"failed to exec in container: timeout %ds exceeded: context deadline exceeded", r.GetTimeout())
	case err != nil:
		return nil, status.Error(codes.Unknown, err.Error())
	}
	return &runtimeapi.ExecSyncResponse{Stdout: stdout.Bytes(), Stderr: stderr.Bytes(), ExitCode: int32(code)}, nil
}

// streamServer is the HTTP server behind the URLs of Exec, Attach and PortForward; it starts with
// the first of them.
type streamServer struct {
	mu   sync.Mutex
	api  streaming.Server
	http *http.Server
}

func (s *streamServer) get(f *Fake) (streaming.Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.api != nil {
		return s.api, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("streaming server: %w", err)
	}
	cfg := streaming.DefaultConfig
	cfg.BaseURL = &url.URL{Scheme: "http", Host: l.Addr().String()}
	if s.api, err = streaming.NewServer(cfg, streams{f}); err != nil {
		_ = l.Close()
		return nil, err
	}
	s.http = &http.Server{Handler: s.api}
	go s.http.Serve(l) //nolint:errcheck // ends with close
	return s.api, nil
}

func (s *streamServer) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http != nil {
		_ = s.http.Close()
	}
}

// Exec returns a URL.
func (f *Fake) Exec(_ context.Context, r *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	if _, err := f.running(r.GetContainerId()); err != nil {
		return nil, err
	}
	s, err := f.streams.get(f)
	if err != nil {
		return nil, err
	}
	return s.GetExec(r)
}

// Attach returns a URL.
func (f *Fake) Attach(_ context.Context, r *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	if _, err := f.running(r.GetContainerId()); err != nil {
		return nil, err
	}
	s, err := f.streams.get(f)
	if err != nil {
		return nil, err
	}
	return s.GetAttach(r)
}

// PortForward returns a URL.
func (f *Fake) PortForward(_ context.Context,
	r *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	f.mu.Lock()
	sb := f.findSandbox(r.GetPodSandboxId())
	ready := sb != nil && sb.ready
	f.mu.Unlock()
	switch {
	case sb == nil:
		return nil, status.Errorf(codes.NotFound, "failed to find sandbox %q: not found", r.GetPodSandboxId())
	case !ready:
		return nil, status.Error(codes.Unknown, "sandbox container is not running")
	}
	s, err := f.streams.get(f)
	if err != nil {
		return nil, err
	}
	return s.GetPortForward(r)
}

// streams implements the streaming server's runtime.
type streams struct{ f *Fake }

// Exec runs a command with the client's streams. `stty size` on a terminal prints the size that the
// client sends first.
func (s streams) Exec(ctx context.Context, id string, cmd []string, in io.Reader, out, errw io.WriteCloser, tty bool,
	resize <-chan remotecommand.TerminalSize) error {
	c, err := s.f.running(id)
	if err != nil {
		return err
	}
	if tty && slices.Equal(cmd, []string{"stty", "size"}) {
		select {
		case size := <-resize:
			_, err = fmt.Fprintln(orDiscard(out), size.Height, size.Width)
		case <-ctx.Done():
			err = ctx.Err()
		}
		return err
	}
	code, err := c.exec(ctx, cmd, stdio{in, orDiscard(out), orDiscard(stderrWriter(tty, out, errw))})
	if err != nil {
		return err
	}
	if code != 0 {
		return utilexec.CodeExitError{Err: fmt.Errorf("error executing command %v, exit code %d", cmd, code),
			Code: code}
	}
	return nil
}

func stderrWriter(tty bool, out, errw io.WriteCloser) io.WriteCloser {
	if tty {
		return out
	}
	return errw
}

func orDiscard(w io.WriteCloser) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// Attach copies the container's streams until it ends or the client leaves.
func (s streams) Attach(ctx context.Context, id string, in io.Reader, out, errw io.WriteCloser, tty bool,
	_ <-chan remotecommand.TerminalSize) error {
	c, err := s.f.running(id)
	if err != nil {
		return err
	}
	if out != nil {
		defer c.proc.out.attach(out)()
	}
	if errw != nil && !tty {
		defer c.proc.err.attach(errw)()
	}
	disconnected := make(chan struct{})
	if in != nil && c.proc.stdinW != nil {
		go func() {
			_, _ = io.Copy(c.proc.stdinW, in)
			if c.config.GetStdinOnce() {
				_ = c.proc.stdinW.Close()
			}
			if out == nil && errw == nil {
				close(disconnected)
			}
		}()
	}
	select {
	case <-c.proc.done:
	case <-ctx.Done():
	case <-disconnected:
	}
	return nil
}

// PortForward connects to a port a script listens on.
func (s streams) PortForward(ctx context.Context, id string, port int32, stream io.ReadWriteCloser) error {
	s.f.mu.Lock()
	sb := s.f.findSandbox(id)
	s.f.mu.Unlock()
	if sb == nil {
		return status.Errorf(codes.NotFound, "failed to find sandbox %q: not found", id)
	}
	conn, err := s.f.connect(sb, int(port))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	go func() {
		_, _ = io.Copy(conn, stream)
	}()
	_, _ = io.Copy(stream, conn)
	return nil
}

func (f *Fake) connect(sb *sandbox, port int) (net.Conn, error) {
	f.mu.Lock()
	handle := sb.ports[port]
	f.mu.Unlock()
	if handle == nil {
		return nil, fmt.Errorf("failed to execute portforward in network namespace: failed to connect to "+
			"localhost:%d inside namespace %q, IPv4: dial tcp4 127.0.0.1:%d: connect: connection refused", port, sb.id,
			port)
	}
	client, server := net.Pipe()
	go handle(server)
	return client, nil
}

// DialPod connects to a port a script listens on, by the Pod's address; tests give it to probes and
// proxies as their dialer.
func (f *Fake) DialPod(_ context.Context, _, address string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := net.LookupPort("tcp", portText)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	var found *sandbox
	for _, sb := range f.sandboxes {
		if sb.ip.IsValid() && sb.ip.String() == host {
			found = sb
		}
	}
	f.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connect: connection refused")}
	if found == nil {
		return nil, refused
	}
	conn, err := f.connect(found, port)
	if err != nil {
		return nil, refused
	}
	return conn, nil
}
