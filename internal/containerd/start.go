package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// stopGrace is how long containerd may take to end by itself; it needs up to 1.5 s.
const stopGrace = 5 * time.Second

// Child is a supervised containerd. Its methods are safe for concurrent use.
type Child struct {
	cfg         Config
	snapshotter string
	images      *archiveImporter
	cancel      context.CancelFunc
	watching    sync.WaitGroup

	mu   sync.Mutex
	proc *process
}

// Start adopts this instance's containerd if a healthy one runs, and starts one otherwise. When it
// returns, CRI answers and the pause image exists. A containerd that is killed meanwhile is started
// again until ctx ends, and OnEvent gets each Failed attempt; one that exits by itself before CRI
// answers is an error. ctx bounds the start only; the child runs until Stop. Errors of type
// *PreflightError name missing prerequisites.
func Start(ctx context.Context, cfg Config) (*Child, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	host, err := cfg.preflight()
	if err != nil {
		return nil, err
	}
	if err := cfg.makeDirs(); err != nil {
		return nil, err
	}
	config, err := cfg.render(host)
	if err != nil {
		return nil, fmt.Errorf("containerd's configuration: %w", err)
	}
	startedAt := time.Now()
	c := &Child{cfg: cfg, snapshotter: host.snapshotter}
	c.images = c.archives()
	what, err := c.startOrAdopt(ctx, config)
	if err != nil {
		return nil, err
	}
	cfg.notify(Event{Kind: what, PID: c.proc.pid, Took: time.Since(startedAt)})
	watchCtx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.watching.Add(1)
	go c.watch(watchCtx, config)
	return c, nil
}

// Endpoint returns the URL of the CRI socket.
func (c *Child) Endpoint() string { return "unix://" + c.cfg.socket() }

// RegistryDir returns the directory with one subdirectory per registry host with its hosts.toml.
func (c *Child) RegistryDir() string { return c.cfg.RegistryDir }

// PID returns the pid of the current process.
func (c *Child) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proc.pid
}

// Close stops supervising and leaves containerd and all containers running, for the next Start to
// adopt.
func (c *Child) Close() {
	c.cancel()
	c.watching.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.proc.release()
}

// Stop ends containerd: TERM, then KILL after 5 s or when ctx ends. Running containers are left to
// their shims.
func (c *Child) Stop(ctx context.Context) error {
	c.cancel()
	c.watching.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.proc.terminate(ctx, stopGrace)
	if err == nil {
		err = removeFiles(c.cfg.pidFile(), c.cfg.socket(), c.cfg.socket()+".ttrpc")
	}
	c.proc.release()
	return err
}

func (c Config) notify(e Event) {
	if c.OnEvent != nil {
		c.OnEvent(e)
	}
}

func (c Config) makeDirs() error {
	for _, dir := range []struct {
		path string
		mode os.FileMode
	}{{c.StateDir, 0o711}, {c.root(), 0o711}, {c.RegistryDir, 0o755}, {c.CNIConfDir, 0o755}} {
		if err := os.MkdirAll(dir.path, dir.mode); err != nil {
			return fmt.Errorf("containerd's directories: %w", err)
		}
	}
	if _, err := os.Stat("/etc/hosts"); err != nil {
		return &PreflightError{What: "/etc/hosts cannot be read, and containerd gives each Pod a copy",
			Fix: "create it: echo '127.0.0.1 localhost' > /etc/hosts", Err: err}
	}
	return nil
}

// adopt returns the running containerd if it answers and has this configuration; otherwise it ends
// it, and its containers run on.
func (c Config) adopt(ctx context.Context, config []byte) (*process, error) {
	proc := c.running()
	if proc == nil {
		return nil, nil
	}
	written, err := os.ReadFile(c.file())
	if _, statErr := os.Stat(c.socket()); statErr == nil && err == nil && bytes.Equal(written, config) {
		timeout, cancel := context.WithTimeout(ctx, 10*time.Second)
		err = c.waitReady(timeout, proc)
		cancel()
		if err == nil {
			return proc, nil
		}
		if ctx.Err() != nil {
			proc.release()
			return nil, err
		}
	}
	defer proc.release()
	return nil, proc.terminate(ctx, stopGrace)
}

// launch starts containerd and returns when CRI answers.
func (c Config) launch(ctx context.Context, config []byte) (*process, error) {
	if err := os.WriteFile(c.file(), config, 0o600); err != nil {
		return nil, fmt.Errorf("containerd's configuration: %w", err)
	}
	var logged int64
	if info, err := os.Stat(c.logFile()); err == nil {
		logged = info.Size()
	}
	proc, err := c.spawn()
	if err != nil {
		return nil, err
	}
	timeout, cancel := context.WithTimeout(ctx, c.ReadyTimeout)
	defer cancel()
	if err := c.waitReady(timeout, proc); err != nil {
		defer proc.release()
		err = fmt.Errorf("%w%s", err, c.lastLogLines(logged))
		return nil, errors.Join(err, proc.terminate(ctx, time.Second))
	}
	return proc, nil
}

// waitReady requests CRI's version until it answers, the process ends or ctx ends.
func (c Config) waitReady(ctx context.Context, proc *process) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-proc.exited:
			cancel()
		case <-ctx.Done():
		}
	}()
	conn, err := c.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	client := runtimeapi.NewRuntimeServiceClient(conn)
	for {
		_, err := client.Version(ctx, &runtimeapi.VersionRequest{}, grpc.WaitForReady(true))
		if err == nil {
			return nil
		}
		select {
		case <-proc.exited: // ctx may be over then, too
			return c.ended(proc)
		default:
		}
		select {
		case <-proc.exited:
			return c.ended(proc)
		case <-ctx.Done():
			return fmt.Errorf("containerd does not answer on %s (%w); its log is %s; another process may hold %s",
				c.socket(), err, c.logFile(), c.root())
		case <-time.After(3 * time.Millisecond): // the socket accepts connections before CRI is ready
		}
	}
}

func (c Config) dial() (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("unix://"+c.socket(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 2 * time.Millisecond, Multiplier: 1.1,
				MaxDelay: 20 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}))
	if err != nil {
		return nil, fmt.Errorf("containerd's socket: %w", err)
	}
	return conn, nil
}

// lastLogLines returns the errors that containerd logged since the offset.
func (c Config) lastLogLines(since int64) string {
	f, err := os.Open(c.logFile())
	if err != nil {
		return ""
	}
	defer f.Close()
	if _, err := f.Seek(since, io.SeekStart); err != nil {
		return ""
	}
	raw, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return ""
	}
	return failureReason(string(raw), c.root())
}

// failureReason returns the cause in containerd's log: the first plugin that failed to load causes
// the other errors.
func failureReason(log, root string) string {
	var last string
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		if _, cause, found := strings.Cut(line, `msg="failed to load plugin" `); found {
			if strings.Contains(cause, "invalid database") || strings.Contains(cause, "checksum error") ||
				strings.Contains(cause, "version mismatch") {
				return "; its database is damaged (" + cause + "): remove " + root +
					", images are fetched again and Pods started anew"
			}
			return "; it says: " + cause
		}
		if strings.Contains(line, "level=error") || strings.Contains(line, "level=fatal") || strings.HasPrefix(line,
			"containerd:") || strings.HasPrefix(line, "panic:") {
			last = line
		}
	}
	if last == "" {
		return ""
	}
	return "; it says: " + last
}

func removeFiles(paths ...string) error {
	var errs []error
	for _, p := range paths {
		if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
