package kmsg

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Path is where the kernel's log is.
const Path = "/dev/kmsg"

// Kill is that the kernel killed a process because memory was out.
type Kill struct {
	Process string // its name; empty where the kernel does not tell
	PID     int    // 0 where it does not tell
	Cgroup  string // whose limit was reached; empty when the memory of the machine was out
}

// Open opens the kernel's log behind what is in it: what was killed earlier is not told again by
// each process that starts. Close ends a Read.
func Open(path string) (io.ReadCloser, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return f, nil
}

// recordSize is more than the kernel's longest record.
const recordSize = 16 << 10

// Follow tells of each kill, until r ends or cannot be read. Records that the kernel overwrote
// before they were read are left out.
func Follow(r io.Reader, tell func(Kill)) error {
	var p Parser
	buffer, rest := make([]byte, recordSize), ""
	for {
		n, err := r.Read(buffer)
		rest += string(buffer[:n])
		for {
			line, more, whole := strings.Cut(rest, "\n")
			if !whole {
				break
			}
			rest = more
			if k, ok := p.Line(message(line)); ok {
				tell(k)
			}
		}
		switch {
		case errors.Is(err, unix.EPIPE):
		case errors.Is(err, io.EOF), errors.Is(err, os.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("the kernel's log: %w", err)
		}
	}
}

// message is what a record says: "6,339,5140900,-;message". Lines of its dictionary begin with a
// space.
func message(record string) string {
	if strings.HasPrefix(record, " ") {
		return ""
	}
	_, text, ok := strings.Cut(record, ";")
	if !ok {
		return ""
	}
	return text
}

// Parser finds kills in messages of the kernel, which come in their order. The zero value is ready.
type Parser struct {
	open *Kill // begun by "invoked oom-killer:" and not yet told
}

var (
	// since 5.0; oom_memcg is not there when the memory of the machine was out
	constraint = regexp.MustCompile(`^oom-kill:constraint=.*,oom_memcg=(.*),task_memcg=.*,task=(.*),pid=(\d+),uid=\d+`)
	limit      = regexp.MustCompile(`Task in .* killed as a result of limit of (.*)`) // before 5.0
	killed     = regexp.MustCompile(`Killed process (\d+) \((.+)\)`)
)

// Line reads one message; ok tells that it ends what is told of a kill.
func (p *Parser) Line(text string) (k Kill, ok bool) {
	if strings.Contains(text, "invoked oom-killer:") {
		p.open = &Kill{}
		return k, false
	}
	if p.open == nil {
		return k, false
	}
	if m := constraint.FindStringSubmatch(text); m != nil {
		return p.end(Kill{Process: m[2], Cgroup: m[1]}, m[3])
	}
	if m := limit.FindStringSubmatch(text); m != nil {
		p.open.Cgroup = m[1]
		if m[1] == "/" {
			p.open.Cgroup = ""
		}
		return k, false
	}
	if m := killed.FindStringSubmatch(text); m != nil {
		return p.end(Kill{Process: m[2], Cgroup: p.open.Cgroup}, m[1])
	}
	return k, false
}

// end closes what is told of a kill. A number that is none is left out.
func (p *Parser) end(k Kill, pid string) (Kill, bool) {
	p.open = nil
	if n, err := strconv.Atoi(pid); err == nil {
		k.PID = n
	}
	return k, true
}
