package noderole

import (
	"context"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/containerd"
	nodeutil "github.com/gantry-project/gantry/internal/node"
)

// Reasons of the Node's events about archives in DATA-DIR/images.
const (
	archiveImported = "ImageArchiveImported"
	archiveFailed   = "ImageArchiveFailed"
)

// importQueue keeps what was told of archives until somebody can write events: the first are
// imported before the node speaks to an API server.
type importQueue struct {
	mu      sync.Mutex
	pending []containerd.ImportedArchive
	wakeup  chan struct{} // something is in the list; capacity one
}

func newImportQueue() *importQueue { return &importQueue{wakeup: make(chan struct{}, 1)} }

// add never blocks.
func (n *importQueue) add(i containerd.ImportedArchive) {
	n.mu.Lock()
	n.pending = append(n.pending, i)
	n.mu.Unlock()
	select {
	case n.wakeup <- struct{}{}:
	default:
	}
}

func (n *importQueue) drain() []containerd.ImportedArchive {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.pending
	n.pending = nil
	return out
}

// publish says each import in the log and as an event of the Node, until ctx ends.
func (n *importQueue) publish(ctx context.Context, events record.EventRecorder, node string) {
	about := nodeutil.Reference(node)
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.wakeup:
		}
		for _, i := range n.drain() {
			if i.Err != nil {
				klog.FromContext(ctx).Error(i.Err, "An image archive is not imported", "file", i.File)
				events.Event(about, v1.EventTypeWarning, archiveFailed, i.Err.Error())
				continue
			}
			klog.FromContext(ctx).Info("An image archive is imported", "file", i.File, "images", i.Names)
			events.Event(about, v1.EventTypeNormal, archiveImported,
				"Imported "+strings.Join(i.Names, ", ")+" from "+i.File)
		}
	}
}
