package crifake

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/expand"
)

// command is one call in a script.
type command struct {
	ctx  context.Context
	run  *shellRun
	args []string
	in   io.Reader // nil is empty
	out  io.Writer
	err  io.Writer
	env  expand.Environ
	dir  string
}

func (c *command) path(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(c.dir, name)
}

func (c *command) fail(err error) int {
	var pe *os.PathError
	if errors.As(err, &pe) {
		fmt.Fprintf(c.err, "%s: %s: %s\n", c.args[0], pe.Path, reasonOf(pe.Err))
		return 1
	}
	fmt.Fprintf(c.err, "%s: %v\n", c.args[0], err)
	return 1
}

func reasonOf(err error) string {
	s := err.Error()
	return strings.ToUpper(s[:1]) + s[1:]
}

// operands returns the arguments that are not options.
func (c *command) operands() (out []string) {
	for _, a := range c.args[1:] {
		if !strings.HasPrefix(a, "-") || a == "-" {
			out = append(out, a)
		}
	}
	return out
}

// lookup finds what a script can call besides the shell's own (echo, printf, test, cd, read, trap,
// wait, …). run runs until stopped and then exits 0; oom is killed for memory; httpd PORT [CODE
// [BODY]] answers HTTP on a port of the Pod.
func lookup(name string) (func(*command) int, bool) {
	do, known := map[string]func(*command) int{
		"run": runForever, "sleep": sleep, "cat": cat, "touch": touch, "rm": rm, "mkdir": mkdir, "ls": ls,
		"env": printEnv, "printenv": printEnv, "hostname": hostname, "date": date, "id": id, "head": head, "wc": wc,
		"oom": oom, "httpd": httpd, "echo": echo, "exit": exit, "sh": nested,
		"true": func(*command) int { return 0 }, "false": func(*command) int { return 1 },
	}[path.Base(name)]
	return do, known
}

// runForever acts as a server that stops on TERM.
func runForever(c *command) int {
	if c.run.main {
		c.run.p.mu.Lock()
		c.run.p.graceful = true
		c.run.p.mu.Unlock()
	}
	<-c.ctx.Done()
	return 0
}

func sleep(c *command) int {
	if len(c.args) < 2 {
		fmt.Fprintln(c.err, "sleep: missing operand")
		return 1
	}
	var total time.Duration
	for _, a := range c.args[1:] {
		if a == "infinity" || a == "inf" {
			<-c.ctx.Done()
			return 143
		}
		d, err := seconds(a)
		if err != nil {
			fmt.Fprintf(c.err, "sleep: invalid number '%s'\n", a)
			return 1
		}
		total += d
	}
	t := time.NewTimer(total)
	defer t.Stop()
	select {
	case <-t.C:
		return 0
	case <-c.ctx.Done():
		return 143
	}
}

// seconds parses 5, 0.5, 5s, 2m, 1h, 1d and Go's 100ms.
func seconds(s string) (time.Duration, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		return time.Duration(f * float64(time.Second)), nil
	}
	if n, found := strings.CutSuffix(s, "d"); found {
		f, err := strconv.ParseFloat(n, 64)
		return time.Duration(f * 24 * float64(time.Hour)), err
	}
	return time.ParseDuration(s)
}

func echo(c *command) int {
	fmt.Fprintln(c.out, strings.Join(c.args[1:], " "))
	return 0
}

func exit(c *command) int {
	if len(c.args) < 2 {
		return 0
	}
	n, err := strconv.Atoi(c.args[1])
	if err != nil {
		return 2
	}
	return n & 0xff
}

func cat(c *command) int {
	code := 0
	list := c.operands()
	if len(list) == 0 {
		list = []string{"-"}
	}
	for _, name := range list {
		if name == "-" {
			if c.in != nil {
				_, _ = io.Copy(c.out, c.in)
			}
			continue
		}
		f, err := c.run.p.open(c.path(name), os.O_RDONLY, 0)
		if err != nil {
			code = c.failAs("can't open '%s': %s\n", name, err)
			continue
		}
		_, _ = io.Copy(c.out, f)
		_ = f.Close()
	}
	return code
}

// failAs prints busybox's wording.
func (c *command) failAs(format, name string, err error) int {
	var pe *os.PathError
	if errors.As(err, &pe) {
		fmt.Fprintf(c.err, c.args[0]+": "+format, name, reasonOf(pe.Err))
		return 1
	}
	return c.fail(err)
}

func touch(c *command) int {
	for _, name := range c.operands() {
		f, err := c.run.p.open(c.path(name), os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return c.fail(err)
		}
		_ = f.Close()
	}
	return 0
}

func (c *command) flag(letter string) bool {
	for _, a := range c.args[1:] {
		if strings.HasPrefix(a, "-") && strings.Contains(a, letter) {
			return true
		}
	}
	return false
}

func rm(c *command) int {
	for _, name := range c.operands() {
		at := c.path(name)
		if c.run.p.readOnly(at) {
			return c.failAs("can't remove '%s': %s\n", name, &os.PathError{Err: errors.New("read-only file system")})
		}
		remove := os.Remove
		if c.flag("r") {
			remove = os.RemoveAll
		}
		if err := remove(c.run.p.hostPath(at)); err != nil && !(c.flag("f") && os.IsNotExist(err)) {
			return c.failAs("can't remove '%s': %s\n", name, inContainer(err, at))
		}
	}
	return 0
}

func mkdir(c *command) int {
	for _, name := range c.operands() {
		at := c.path(name)
		do := os.Mkdir
		if c.flag("p") {
			do = os.MkdirAll
		}
		if err := do(c.run.p.hostPath(at), 0o755); err != nil {
			return c.failAs("can't create directory '%s': %s\n", name, inContainer(err, at))
		}
	}
	return 0
}

func ls(c *command) int {
	list := c.operands()
	if len(list) == 0 {
		list = []string{c.dir}
	}
	for _, name := range list {
		at := c.path(name)
		info, err := os.Stat(c.run.p.hostPath(at))
		if err != nil {
			return c.fail(inContainer(err, name))
		}
		if !info.IsDir() {
			fmt.Fprintln(c.out, name)
			continue
		}
		entries, err := os.ReadDir(c.run.p.hostPath(at))
		if err != nil {
			return c.fail(inContainer(err, name))
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".") || c.flag("a") {
				fmt.Fprintln(c.out, e.Name())
			}
		}
	}
	return 0
}

func printEnv(c *command) int {
	if len(c.args) > 1 {
		v := c.env.Get(c.args[1])
		if !v.IsSet() {
			return 1
		}
		fmt.Fprintln(c.out, v.String())
		return 0
	}
	for name, v := range c.env.Each {
		if v.Exported {
			fmt.Fprintf(c.out, "%s=%s\n", name, v.String())
		}
	}
	return 0
}

func hostname(c *command) int {
	fmt.Fprintln(c.out, c.run.p.pod.GetHostname())
	return 0
}

func date(c *command) int {
	fmt.Fprintln(c.out, time.Now().UTC().Format(time.UnixDate))
	return 0
}

func id(c *command) int {
	u := c.run.p.host.user().GetLinux()
	switch {
	case c.flag("u"):
		fmt.Fprintln(c.out, u.Uid)
	case c.flag("g"):
		fmt.Fprintln(c.out, u.Gid)
	default:
		fmt.Fprintf(c.out, "uid=%d gid=%d\n", u.Uid, u.Gid)
	}
	return 0
}

func head(c *command) int {
	if c.in == nil {
		return 0
	}
	s := bufio.NewScanner(c.in)
	for n := 0; n < 10 && s.Scan(); n++ {
		fmt.Fprintln(c.out, s.Text())
	}
	return 0
}

func wc(c *command) int {
	n := 0
	if c.in != nil {
		for s := bufio.NewScanner(c.in); s.Scan(); {
			n++
		}
	}
	fmt.Fprintln(c.out, n)
	return 0
}

func nested(c *command) int {
	text, ok := shellText(c.args)
	if !ok {
		if c.in == nil {
			return 0
		}
		b, _ := io.ReadAll(c.in)
		text = string(b)
	}
	return c.run.p.shell(c.ctx, text, stdio{c.in, c.out, c.err}, c.run.main)
}

func oom(c *command) int {
	c.run.p.setOOM()
	c.run.p.kill()
	<-c.ctx.Done()
	return 137
}
