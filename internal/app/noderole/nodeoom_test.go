package noderole

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/record"
)

// An event of the node tells of each process that the kernel kills when the machine's memory is
// out, and of none that a cgroup's limit costs; a log that cannot be read ends nothing.
func TestSystemOOMIsReported(t *testing.T) {
	read, write := io.Pipe()
	events := record.NewFakeRecorder(4)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 2)
	go func() {
		done <- oomWatcher{"n1", events, func() (io.ReadCloser, error) { return read, nil }}.run(ctx)
	}()
	go func() {
		refused := func() (io.ReadCloser, error) { return nil, errors.New("not permitted") }
		done <- oomWatcher{"n1", events, refused}.run(ctx)
	}()
	for _, line := range []string{
		"4,1,1,-;java invoked oom-killer: gfp_mask=0x1",
		"6,2,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=/kubepods," +
			"task_memcg=/kubepods/c,task=java,pid=5,uid=0",
		"4,3,3,-;dd invoked oom-killer: gfp_mask=0x1",
		"3,4,4,-;Out of memory: Killed process 42 (dd) total-vm:1kB",
	} {
		if _, err := io.WriteString(write, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case got := <-events.Events:
		want := "Warning SystemOOM System OOM encountered, victim process: dd, pid: 42"
		if !strings.HasPrefix(got, want) {
			t.Errorf("got event %q, want %q", got, want)
		}
	case <-time.After(10 * time.Second):
		t.Error("got no event, want SystemOOM")
	}
	stop()
	for range 2 {
		if err := <-done; err != nil {
			t.Errorf("got %v, want the end with its context", err)
		}
	}
	if len(events.Events) > 0 {
		t.Errorf("got one more event %q, want none", <-events.Events)
	}
}
