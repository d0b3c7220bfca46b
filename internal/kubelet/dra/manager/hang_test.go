package manager_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A driver that hangs keeps its own Pods only, and those no longer than upstream's 45 s at a time:
// other drivers' go on, the error names the call, and what waits goes on when the driver answers.
func TestADriverThatHangsKeepsItsOwnPods(t *testing.T) {
	run(t, func(n *node) {
		stuck := n.driver("stuck.example.com")
		n.driver("well.example.com")
		hang := make(chan struct{})
		stuck.called = func() { <-hang }
		p, q := user("p", "stuck"), user("q", "well")
		n.claim("stuck", []string{"stuck.example.com"}, p)
		n.claim("well", []string{"well.example.com"}, q)
		began, failed := time.Now(), make(chan error, 1)
		go func() { failed <- n.m.Prepare(context.Background(), p) }()
		synctest.Wait()
		n.prepare(q, ok)
		n.unprepare(q, ok)
		if took := time.Since(began); took > 0 {
			t.Errorf("another driver's Pod took %s, want it not kept", took)
		}
		n.want("well.example.com prepare well, well.example.com unprepare well")
		err := <-failed
		if took := time.Since(began); took != 45*time.Second {
			t.Errorf("the driver was waited for %s, want 45s", took)
		}
		const says = "prepare dynamic resources: NodePrepareResources: "
		if got := fmt.Sprint(err); !strings.HasPrefix(got, says) || !strings.Contains(got, "DeadlineExceeded") {
			t.Errorf("got %v, want %s… DeadlineExceeded", err, says)
		}
		if !n.m.Holds(p.UID) {
			t.Error("the claim of the Pod that waits is not held")
		}
		close(hang)
		synctest.Wait()
		n.calls()
		n.prepare(p, ok)
		n.want("stuck.example.com prepare stuck")

		hang = make(chan struct{})
		stuck.called = func() { <-hang }
		began = time.Now()
		if err := n.m.Unprepare(context.Background(), p.UID); err == nil ||
			!strings.Contains(err.Error(), "NodeUnprepareResources: ") || time.Since(began) != 45*time.Second {
			t.Errorf("got %v after %s, want an error of NodeUnprepareResources after 45s", err, time.Since(began))
		}
		close(hang)
		synctest.Wait()
		stuck.called = nil
		n.calls()
		n.unprepare(p, ok)
		n.want("stuck.example.com unprepare stuck")
	})
}
