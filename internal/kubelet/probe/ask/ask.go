package ask

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/probe"
)

// Recorder takes Kubernetes events; record.EventRecorder is one.
type Recorder interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

// Deps is what an Asker works with.
type Deps struct {
	Kinds    Kinds
	Recorder Recorder
	Journal  journal.Sink
	Changed  func(types.UID) // called after each change of a verdict, without locks held; must not block
}

// Kinds holds who asks each kind of probe.
type Kinds struct{ HTTP, TCP, Exec, GRPC probe.Asker }

// Running is a container that runs now.
type Running struct {
	Name      string
	ID        string // without the runtime's prefix; a new one starts the container's probes anew
	StartedAt time.Time
	// Adopted containers ran before this kubelet did: Ready and Started are what the Pod's status said of them, and are the verdicts to begin with.
	Adopted, Ready, Started bool
}

// Asker asks.
type Asker struct{ d Deps }

// New returns an Asker.
func New(d Deps) *Asker { return &Asker{d: d} }

// Sync tells which containers of the Pod run now. Probes of others stop; a stopping Pod keeps only its readiness probes.
func (a *Asker) Sync(pod *v1.Pod, podIP string, running []Running) { a.sync(pod, podIP, running) }

// Verdict is the probe's verdict; ok is false when there is no such probe at work.
func (a *Asker) Verdict(k probe.Key) (v probe.Verdict, ok bool) { return a.verdict(k) }

// Forget ends the Pod's probes.
func (a *Asker) Forget(uid types.UID) { a.forget(uid) }
