package app

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/kubelet"
	"github.com/gantry-project/gantry/internal/kubelet/drain"
	"github.com/gantry-project/gantry/internal/kubelet/drain/shutdown"
	"github.com/gantry-project/gantry/internal/kubelet/nodestatus"
	"github.com/gantry-project/gantry/internal/linux/logind"
	"github.com/gantry-project/gantry/internal/reason"
)

// ending is the orderly end of a node when its machine shuts down. The kubelet and the reporter ask it before it is joined with them.
type ending struct {
	keeper *shutdown.Keeper
	report *nodestatus.Reporter
	alone  bool // without an API server
}

// closed refuses Pods while the node shuts down.
func (e *ending) closed() *reason.Refusal { return e.keeper.Admit() }

// healthy is why the node is not Ready.
func (e *ending) healthy() error { return e.keeper.Healthy() }

// localNode is this node as it would be registered.
func (e *ending) localNode() *v1.Node { return e.report.Local(context.Background()) }

// join makes the keeper; before anything runs.
func (n *nodeRole) join(e *ending, k *kubelet.Kubelet, recorder record.EventRecorder, report *nodestatus.Reporter) {
	e.report = report
	node := &v1.ObjectReference{Kind: "Node", Name: n.place.nodeName, UID: types.UID(n.place.nodeName)}
	e.keeper = shutdown.New(shutdown.Deps{
		Bus:   func(ctx context.Context) (shutdown.Session, error) { return logind.Dial(ctx, logind.Options{}) },
		Steps: drain.Steps(n.config), Pods: k.Pods, End: k.EndPod, Changed: report.Nudge, Marked: n.engine.meter.Shutdown,
		Event: func(why, message string) { recorder.Event(node, v1.EventTypeNormal, why, message) },
	})
}
