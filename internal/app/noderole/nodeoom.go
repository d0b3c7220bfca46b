package noderole

import (
	"context"
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/linux/kmsg"
	nodeutil "github.com/gantry-project/gantry/internal/node"
)

// oomWatcher tells by events of the node what the kernel kills when the memory of the machine is
// out.
type oomWatcher struct {
	node   string
	events record.EventRecorder
	open   func() (io.ReadCloser, error) // the kernel's log
}

// run follows the kernel's log until ctx ends. A log that cannot be read, as in a user namespace,
// ends nothing: nothing is told then.
func (w oomWatcher) run(ctx context.Context) error {
	log := klog.FromContext(ctx)
	if f, err := w.open(); err != nil {
		log.Info("The kernel's log cannot be read: no event tells of processes that it kills", "err", err)
	} else {
		stop := context.AfterFunc(ctx, func() { _ = f.Close() })
		defer stop()
		if err := kmsg.Follow(f, w.record); err != nil {
			log.Error(err, "Processes that the kernel kills are told of no more")
		}
	}
	<-ctx.Done()
	return nil
}

// record leaves out kills by the limit of a cgroup: statuses of containers tell of those.
func (w oomWatcher) record(k kmsg.Kill) {
	if k.Cgroup != "" {
		return
	}
	text := "System OOM encountered"
	if k.Process != "" && k.PID != 0 {
		text = fmt.Sprintf("%s, victim process: %s, pid: %d", text, k.Process, k.PID)
	}
	w.events.Event(nodeutil.Reference(w.node), v1.EventTypeWarning,
		"SystemOOM", text)
}
