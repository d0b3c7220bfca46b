package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a running containerd, started or adopted. Its pidfd stays valid when the pid is
// reused.
type process struct {
	pid    int
	fd     *os.File
	exited chan struct{}
	exit   <-chan *os.ProcessState // how it ended; nil for an adopted process
}

// openProcess opens a pid. It fails if there is no such process.
func openProcess(pid int) (*process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", pid, err)
	}
	p := &process{pid: pid, fd: os.NewFile(uintptr(fd), "pidfd"), exited: make(chan struct{})}
	go p.wait()
	return p, nil
}

// wait closes exited when the process has ended. release ends it without closing exited.
func (p *process) wait() {
	raw, err := p.fd.SyscallConn()
	if err != nil {
		return
	}
	err = raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return err == nil && n > 0
	})
	if err == nil {
		close(p.exited)
	}
}

func (p *process) release() { _ = p.fd.Close() }

func (p *process) signal(s syscall.Signal) error {
	raw, err := p.fd.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	if err := raw.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), s, nil, 0) }); err != nil {
		return err
	}
	if errors.Is(sent, unix.ESRCH) {
		return nil
	}
	return sent
}

// terminate sends TERM, and KILL after grace or when ctx ends.
func (p *process) terminate(ctx context.Context, grace time.Duration) error {
	if err := p.signal(unix.SIGTERM); err != nil {
		return fmt.Errorf("stop containerd (process %d): %w", p.pid, err)
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
	case <-timer.C:
	}
	if err := p.signal(unix.SIGKILL); err != nil {
		return fmt.Errorf("kill containerd (process %d): %w", p.pid, err)
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(10 * time.Second):
		return fmt.Errorf("containerd (process %d) does not end after SIGKILL: it waits inside the kernel; see "+
			"/proc/%d/stack", p.pid, p.pid)
	}
}

// spawn starts containerd in a session of its own, so that it outlives Gantry; its log is appended
// to a file.
func (c Config) spawn() (*process, error) {
	log, err := c.openLog()
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(c.Executable, "containerd", "--config", c.file())
	cmd.Dir, cmd.Env = "/", c.environment(os.Environ())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start containerd: %w", err)
	}
	p, err := openProcess(cmd.Process.Pid)
	if err != nil {
		return nil, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	// before it is reaped, while its start time can still be read
	if err := c.writePID(p.pid); err != nil {
		p.release()
		return nil, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	exit := make(chan *os.ProcessState, 1)
	p.exit = exit
	go func() {
		_ = cmd.Wait() // reaps it; its log says why it ended
		exit <- cmd.ProcessState
	}()
	return p, nil
}

// environment returns containerd's environment: ours, with the instance's shim and runc first in
// PATH.
func (c Config) environment(overrides []string) []string {
	path := c.BinDir
	out := make([]string, 0, len(overrides)+1)
	for _, v := range overrides {
		rest, is := strings.CutPrefix(v, "PATH=")
		switch {
		case !is:
			out = append(out, v)
		case rest != "":
			path = c.BinDir + string(os.PathListSeparator) + rest
		}
	}
	return append(out, "PATH="+path)
}

const logLimit = 16 << 20

func (c Config) openLog() (*os.File, error) {
	if info, err := os.Stat(c.logFile()); err == nil && info.Size() > logLimit {
		if err := os.Rename(c.logFile(), c.logFile()+".1"); err != nil {
			return nil, fmt.Errorf("containerd's log: %w", err)
		}
	}
	f, err := os.OpenFile(c.logFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("containerd's log: %w", err)
	}
	return f, nil
}

// writePID stores the pid with the process's start time; together they identify it.
func (c Config) writePID(pid int) error {
	start, err := startTime(pid)
	if err != nil {
		return err
	}
	tmp := c.pidFile() + ".new"
	if err := os.WriteFile(tmp, fmt.Appendf(nil, "%d %s\n", pid, start), 0o600); err != nil {
		return fmt.Errorf("containerd's pid file: %w", err)
	}
	return os.Rename(tmp, c.pidFile())
}

// startTime returns field 22 of /proc/PID/stat, in clock ticks since boot.
func startTime(pid int) (string, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", fmt.Errorf("process %d: %w", pid, err)
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("process %d: /proc/%d/stat is cut off", pid, pid)
	}
	return fields[19], nil
}

// running returns this instance's containerd, found by its pid file or else by its command line;
// nil if none runs.
func (c Config) running() *process {
	if raw, err := os.ReadFile(c.pidFile()); err == nil {
		fields := strings.Fields(string(raw))
		if len(fields) == 2 {
			if pid, err := strconv.Atoi(fields[0]); err == nil {
				if p := c.adoptProcess(pid, fields[1]); p != nil {
					return p
				}
			}
		}
	}
	for _, pid := range pids() {
		if hasArgument(pid, "--config", c.file()) {
			if p := c.adoptProcess(pid, ""); p != nil {
				return p
			}
		}
	}
	return nil
}

// adoptProcess opens a process if it is the recorded one: it started at start (or start is empty)
// and still runs.
func (c Config) adoptProcess(pid int, start string) *process {
	p, err := openProcess(pid)
	if err != nil {
		return nil
	}
	if now, err := startTime(pid); err != nil || start != "" && now != start || !hasArgument(pid, "--config",
		c.file()) {
		p.release()
		return nil
	}
	return p
}

func pids() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

// hasArgument reports whether the process was started with this flag and value.
func hasArgument(pid int, flag, value string) bool {
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	return err == nil && bytes.Contains(raw, []byte("\x00"+flag+"\x00"+value+"\x00"))
}
