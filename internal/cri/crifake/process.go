package crifake

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// processHost is what a process has of its container and of the node; *container is one.
type processHost interface {
	// rootfs is the directory of the host with the container's own files.
	rootfs() string
	user() *runtimeapi.ContainerUser
	// listen takes a port of the Pod until the process has exited.
	listen(port int, handle func(net.Conn)) error
	// exited notes the end, gives the ports back, and sends the event.
	exited(code int32, reason string)
}

// process is a running container's main process: it starts, may be signalled, and ends once.
type process struct {
	host    processHost
	script  Script
	config  *runtimeapi.ContainerConfig
	pod     *runtimeapi.PodSandboxConfig
	ctx     context.Context
	cancel  context.CancelFunc
	log     *logFile
	out     *fanOut // stdout
	err     *fanOut // stderr; the same as out with a terminal
	stdin   io.Reader
	stdinW  *io.PipeWriter // nil without stdin
	signals chan string
	done    chan struct{} // closed when the container is reported exited

	exitState
}

// exitState is what decides how a process ends.
type exitState struct {
	forced chan struct{} // closed by kill and by an exiting trap

	mu       sync.Mutex
	exited   bool
	code     int
	oom      bool
	graceful bool              // a signal without trap ends it with 0: it stands for a program that handles TERM
	traps    map[string]string // signal name to shell text; "" ignores
}

func newProcess(c *container, log *logFile) *process {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{
		host: c, script: c.script, config: c.config, pod: c.sandbox.config, ctx: ctx, cancel: cancel, log: log,
		signals: make(chan string, 16), done: make(chan struct{}),
		exitState: exitState{traps: map[string]string{}, forced: make(chan struct{})},
		out:       newFanOut(log.stream("stdout")),
	}
	if p.err = p.out; !c.config.GetTty() {
		p.err = newFanOut(log.stream("stderr"))
	}
	if c.config.GetStdin() {
		p.stdin, p.stdinW = io.Pipe()
	}
	return p
}

// run is the life of the process; it reports the end.
func (p *process) run() {
	finished := make(chan int, 1)
	go func() { finished <- p.main() }()
	var code int
	select {
	case code = <-finished:
	case <-p.forced:
		code = p.forcedCode()
	}
	p.mu.Lock()
	p.exited = true
	oom := p.oom
	p.mu.Unlock()
	p.cancel()
	p.out.close()
	p.err.close()
	p.log.close()
	if p.stdinW != nil {
		_ = p.stdinW.Close()
	}
	p.host.exited(int32(code), exitReason(code, oom))
	close(p.done)
}

func exitReason(code int, oom bool) string {
	switch {
	case oom:
		return "OOMKilled"
	case code == 0:
		return "Completed"
	}
	return "Error"
}

func (p *process) forcedCode() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.code
}

func (p *process) main() int {
	s := p.script
	switch {
	case s.Main != nil:
		return s.Main(p.api(p.ctx, stdio{p.stdin, p.out, p.err}))
	case s.Sh != "":
		go p.handleSignals()
		return p.shell(p.ctx, s.Sh, stdio{p.stdin, p.out, p.err}, true)
	}
	p.mu.Lock()
	p.graceful = true
	p.mu.Unlock()
	go p.handleSignals()
	<-p.ctx.Done()
	return 0
}

// api is the process as Go scripts see it.
func (p *process) api(ctx context.Context, std stdio) *Process {
	m := p.pod.GetMetadata()
	return &Process{
		Context: ctx, Signal: p.signals, Stdin: std.in, Stdout: std.out, Stderr: std.err, Env: p.env(),
		Pod:       m.GetNamespace() + "/" + m.GetName(),
		Container: p.config.GetMetadata().GetName(), Attempt: p.config.GetMetadata().GetAttempt(), Path: p.hostPath,
		OOMKilled: p.setOOM,
		Listen:    p.host.listen,
	}
}

func (p *process) setOOM() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.oom = true
}

// signal delivers; nothing waits for it to be taken.
func (p *process) signal(name string) {
	select {
	case p.signals <- name:
	default:
	}
}

// handleSignals handles signals as a shell does: trap, or end. A trap that calls exit ends the
// process, others let it continue.
func (p *process) handleSignals() {
	for {
		select {
		case <-p.ctx.Done():
			return
		case name := <-p.signals:
			p.mu.Lock()
			text, trapped := p.traps[name]
			graceful := p.graceful
			p.mu.Unlock()
			switch {
			case trapped && text == "":
			case trapped:
				if code, exited := p.trap(text); exited {
					p.end(code)
					return
				}
			case graceful:
				p.end(0)
				return
			default:
				p.end(128 + int(unix.SignalNum("SIG"+name)))
				return
			}
		}
	}
}

// end makes the process report code, whatever its main part still does.
func (p *process) end(code int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.exited {
		return
	}
	p.exited, p.code = true, code
	close(p.forced)
}

func (p *process) kill() { p.end(137) }

func (p *process) env() []string {
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOSTNAME=" + p.pod.GetHostname()}
	for _, kv := range p.config.GetEnvs() {
		env = append(env, kv.Key+"="+string(kv.Value))
	}
	return env
}

// mountOf returns the mount that covers a path in the container, the longest one.
func (p *process) mountOf(path string) *runtimeapi.Mount {
	var best *runtimeapi.Mount
	for _, m := range p.config.GetMounts() {
		at := filepath.Clean(m.ContainerPath)
		if (path == at || strings.HasPrefix(path, strings.TrimSuffix(at, "/")+"/")) && m.HostPath != "" {
			if best == nil || len(at) > len(filepath.Clean(best.ContainerPath)) {
				best = m
			}
		}
	}
	return best
}

// hostPath is the file of the host behind a path in the container.
func (p *process) hostPath(path string) string {
	path = filepath.Clean("/" + path)
	if m := p.mountOf(path); m != nil {
		return filepath.Join(m.HostPath, strings.TrimPrefix(path, filepath.Clean(m.ContainerPath)))
	}
	return filepath.Join(p.host.rootfs(), path)
}

func (p *process) readOnly(path string) bool {
	if m := p.mountOf(path); m != nil {
		return m.Readonly
	}
	return p.config.GetLinux().GetSecurityContext().GetReadonlyRootfs()
}

// open opens a path of the container; errors name that path, not the host's.
func (p *process) open(path string, flag int, perm os.FileMode) (*os.File, error) {
	if path == "/dev/null" {
		return os.OpenFile(os.DevNull, flag, 0)
	}
	if flag&(os.O_WRONLY|os.O_RDWR) != 0 && p.readOnly(path) {
		return nil, &os.PathError{Op: "open", Path: path, Err: unix.EROFS}
	}
	f, err := os.OpenFile(p.hostPath(path), flag, perm)
	return f, inContainer(err, path)
}

func inContainer(err error, path string) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return &os.PathError{Op: pe.Op, Path: path, Err: pe.Err}
	}
	return err
}
