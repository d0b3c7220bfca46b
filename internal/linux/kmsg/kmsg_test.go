package kmsg

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Records as kernels write them.
const (
	machine = "4,1200,9001,-;stress invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE), order=0\n" +
		"4,1201,9002,-;CPU: 1 PID: 411 Comm: stress Not tainted 6.1.0\n SUBSYSTEM=cpu\n" +
		"6,1202,9003,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom," +
		"task_memcg=/user,task=stress,pid=411,uid=0\n" +
		"3,1203,9004,-;Out of memory: Killed process 411 (stress) total-vm:8123kB, anon-rss:7000kB, UID:0\n"
	pod = "4,1300,9101,-;java invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=-997\n" +
		"6,1301,9102,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=cri-1,mems_allowed=0," +
		"oom_memcg=/kubepods/burstable/podx,task_memcg=/kubepods/burstable/podx/c,task=java,pid=512,uid=1000\n" +
		"3,1302,9103,-;Memory cgroup out of memory: Killed process 512 (java) total-vm:9kB, anon-rss:8kB\n"
	old = "4,20,31,-;httpd invoked oom-killer: gfp_mask=0x24000c0, order=0, oom_score_adj=910\n" +
		"6,21,32,-;Task in /kubepods/podx/c killed as a result of limit of /kubepods/podx\n" +
		"3,22,33,-;Memory cgroup out of memory: Kill process 77 (httpd) score 1910 or sacrifice child\n" +
		"3,23,34,-;Killed process 77 (httpd) total-vm:10kB, anon-rss:9kB\n" +
		"4,30,41,-;dd invoked oom-killer: gfp_mask=0x24000c0, order=0\n" +
		"3,31,42,-;Killed process 78 (dd (x)) total-vm:10kB\n"
)

var all = []Kill{{Process: "stress", PID: 411}, {Process: "java", PID: 512, Cgroup: "/kubepods/burstable/podx"},
	{Process: "httpd", PID: 77, Cgroup: "/kubepods/podx"}, {Process: "dd (x)", PID: 78}}

// gives gives one record at a time, as the kernel does, and then an error.
type gives struct {
	records []string
	err     error
}

func (g *gives) Read(b []byte) (int, error) {
	if len(g.records) == 0 {
		return 0, g.err
	}
	next := g.records[0]
	g.records = g.records[1:]
	if next == "overwritten" {
		return 0, unix.EPIPE
	}
	return copy(b, next), nil
}

// Kills are found in records of kernels of all versions, between other messages, and told once.
func TestKillsAreFound(t *testing.T) {
	text := "6,1,1,-;eth0: link up\n3,2,2,-;Killed process 9 (nobody asked)\n" + machine + pod + old
	broken := errors.New("broken")
	for name, r := range map[string]io.Reader{
		"a record at a time": &gives{strings.SplitAfter(text, "\n"), io.EOF},
		"all at once":        strings.NewReader(text),
		"some overwritten":   &gives{append([]string{"overwritten"}, strings.SplitAfter(text, "\n")...), os.ErrClosed},
		"then an error":      &gives{[]string{text}, broken},
	} {
		var got []Kill
		err := Follow(r, func(k Kill) { got = append(got, k) })
		if g, ok := r.(*gives); ok && g.err == broken {
			if !errors.Is(err, broken) {
				t.Errorf("%s: got %v, want the error", name, err)
			}
		} else if err != nil {
			t.Errorf("%s: got %v, want no error", name, err)
		}
		if !slices.Equal(got, all) {
			t.Errorf("%s: got %+v, want %+v", name, got, all)
		}
	}
}

// What the log has already is not told, and Close ends the reading.
func TestTheLogOfThisKernel(t *testing.T) {
	f, err := Open(Path)
	if err != nil {
		t.Skipf("%s cannot be read here: %v", Path, err)
	}
	done := make(chan error, 1)
	go func() { done <- Follow(f, func(Kill) {}) }()
	time.AfterFunc(10*time.Millisecond, func() { _ = f.Close() })
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("got %v, want the end without an error", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("got no end within 10 s of Close, want one")
	}
}
