package crifake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// shell interprets text inside the container and returns its exit code. main is true for the
// container's own process: there an unknown command acts as a server that runs until it is stopped;
// in an exec it is not found.
func (p *process) shell(ctx context.Context, text string, std stdio, main bool) int {
	code, _ := p.interpret(ctx, text, std, main)
	return code
}

// trap runs a trap's text; exited: it called exit.
func (p *process) trap(text string) (code int, exited bool) {
	return p.interpret(p.ctx, text, stdio{nil, p.out, p.err}, false)
}

type stdio struct {
	in       io.Reader
	out, err io.Writer
}

func (p *process) interpret(ctx context.Context, text string, std stdio, main bool) (code int, exited bool) {
	if dir := p.config.GetWorkingDir(); dir != "" && dir != "/" {
		_ = os.MkdirAll(p.hostPath(dir), 0o755)
		text = "cd " + quote([]string{dir}) + "\n" + text
	}
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "sh")
	if err != nil {
		fmt.Fprintf(std.err, "sh: %v\n", err)
		return 2, true
	}
	sh := &shellRun{p: p, main: main}
	runner, err := interp.New(
		interp.Env(expand.ListEnviron(p.env()...)), interp.Dir("/"), interp.StdIO(std.in, std.out, std.err),
		interp.CallHandler(sh.call), interp.OpenHandler(sh.open), interp.StatHandler(sh.stat),
		interp.ReadDirHandler2(sh.readDir),
		interp.AccessHandler(sh.access),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return sh.exec }),
	)
	if err != nil {
		fmt.Fprintf(std.err, "sh: %v\n", err)
		return 2, true
	}
	err = runner.Run(ctx, file)
	var status interp.ExitStatus
	switch {
	case err == nil:
	case errors.As(err, &status):
		code = int(status)
	default:
		code = 1
	}
	return code, runner.Exited()
}

// shellRun is one interpretation: files and commands are the container's own.
type shellRun struct {
	p    *process
	main bool
}

// call takes traps of signals for itself; the interpreter only knows EXIT and ERR.
func (s *shellRun) call(_ context.Context, args []string) ([]string, error) {
	if args[0] != "trap" || len(args) < 3 {
		return args, nil
	}
	list := args[1:]
	if list[0] == "--" {
		list = list[1:]
	}
	rest := []string{"trap", list[0]}
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	for _, name := range list[1:] {
		sig := strings.TrimPrefix(name, "SIG")
		switch {
		case sig == "EXIT" || sig == "ERR" || sig == "0":
			rest = append(rest, strings.Replace(sig, "0", "EXIT", 1))
		case list[0] == "-":
			delete(s.p.traps, sig)
		default:
			s.p.traps[signalNumber(sig)] = list[0]
		}
	}
	if len(rest) == 2 {
		return []string{"true"}, nil
	}
	return rest, nil
}

func signalNumber(sig string) string {
	switch sig {
	case "15":
		return "TERM"
	case "2":
		return "INT"
	case "1":
		return "HUP"
	case "3":
		return "QUIT"
	}
	return sig
}

func (s *shellRun) abs(ctx context.Context, name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(interp.HandlerCtx(ctx).Dir, name)
}

func (s *shellRun) open(ctx context.Context, name string, flag int, perm os.FileMode) (io.ReadWriteCloser, error) {
	switch name = s.abs(ctx, name); name {
	case "/dev/stdout", "/proc/1/fd/1":
		return outputOnly{s.p.out}, nil
	case "/dev/stderr", "/proc/1/fd/2":
		return outputOnly{s.p.err}, nil
	}
	f, err := s.p.open(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return f, nil
}

type outputOnly struct{ io.Writer }

func (outputOnly) Read([]byte) (int, error) { return 0, io.EOF }
func (outputOnly) Close() error             { return nil }

func (s *shellRun) stat(ctx context.Context, name string, follow bool) (fs.FileInfo, error) {
	name = s.abs(ctx, name)
	lookup := os.Lstat
	if follow {
		lookup = os.Stat
	}
	info, err := lookup(s.p.hostPath(name))
	return info, inContainer(err, name)
}

func (s *shellRun) readDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	name = s.abs(ctx, name)
	list, err := os.ReadDir(s.p.hostPath(name))
	return list, inContainer(err, name)
}

func (s *shellRun) access(ctx context.Context, name string, mode interp.AccessMode) error {
	name = s.abs(ctx, name)
	if mode&interp.AccessWrite != 0 && s.p.readOnly(name) {
		return &os.PathError{Op: "access", Path: name, Err: unix.EROFS}
	}
	return inContainer(unix.Access(s.p.hostPath(name), uint32(mode)), name)
}

// exec runs one of our commands; a program is never started.
func (s *shellRun) exec(ctx context.Context, args []string) error {
	hc := interp.HandlerCtx(ctx)
	c := &command{ctx: ctx, run: s, args: args, out: hc.Stdout, err: hc.Stderr, env: hc.Env, dir: hc.Dir}
	if f, ok := hc.Stdin.(*os.File); ok && f != nil {
		c.in = f
	}
	do, known := lookup(args[0])
	switch {
	case known:
	case s.main:
		do = runForever
	default:
		fmt.Fprintf(hc.Stderr, "sh: %s: not found\n", args[0])
		return interp.ExitStatus(127)
	}
	if code := do(c); code != 0 {
		return interp.ExitStatus(uint8(code))
	}
	return nil
}
