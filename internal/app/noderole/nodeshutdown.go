package noderole

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/kubelet"
	"github.com/gantry-project/gantry/internal/kubelet/nodeshutdown"
	"github.com/gantry-project/gantry/internal/kubelet/nodeshutdown/manager"
	"github.com/gantry-project/gantry/internal/kubelet/nodestatus"
	"github.com/gantry-project/gantry/internal/linux/logind"
	nodeutil "github.com/gantry-project/gantry/internal/node"
	"github.com/gantry-project/gantry/internal/reason"
)

// nodeShutdown is the orderly end of a node when its machine shuts down. The kubelet and the
// reporter ask it before it is joined with them.
type nodeShutdown struct {
	manager    *manager.Manager
	report     *nodestatus.Reporter
	standalone bool // without an API server
}

// admissionRefusal refuses Pods while the node shuts down.
func (e *nodeShutdown) admissionRefusal() *reason.Refusal { return e.manager.Admit() }

// notReadyReason is why the node is not Ready.
func (e *nodeShutdown) notReadyReason() error { return e.manager.Healthy() }

// localNode is this node as it would be registered.
func (e *nodeShutdown) localNode() *v1.Node { return e.report.LocalNode(context.Background()) }

// attachShutdown makes the node shutdown manager; call it before anything runs.
func (n *Role) attachShutdown(e *nodeShutdown, k *kubelet.Kubelet, recorder record.EventRecorder,
	report *nodestatus.Reporter) {
	e.report = report
	node := nodeutil.Reference(n.instance.NodeName)
	e.manager = manager.New(manager.Deps{
		Bus:   func(ctx context.Context) (manager.Session, error) { return logind.Dial(ctx, logind.Options{}) },
		Steps: nodeshutdown.Steps(n.config), Pods: k.Pods, KillPod: k.KillPod, Changed: report.Trigger,
		Marked: n.containerRuntime.Metrics.Shutdown,
		Event:  func(why, message string) { recorder.Event(node, v1.EventTypeNormal, why, message) },
	})
}
