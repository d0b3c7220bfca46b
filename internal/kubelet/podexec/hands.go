package podexec

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/reason"
)

// Hands carry out actions. Calls for one Pod come one after another, but for Furnish and the CreateSandbox beside it; calls for different Pods side by side.
type Hands struct {
	d    Deps
	gate *gate

	mu      sync.Mutex
	benches map[types.UID]*bench
}

// bench is what is at hand for one Pod while this kubelet lives.
type bench struct {
	mounted map[string]volume.Mounted
	users   *runtimeapi.UserNamespace // the Pod's own, once they were given
	mu      sync.Mutex
	killing map[string]bool // container ids with what their Killing events said
	hooked  map[string]bool // container ids whose preStop hook was begun
}

// New returns Hands.
func New(d Deps) *Hands {
	return &Hands{d: d, gate: newGate(2 * runtime.NumCPU()), benches: map[types.UID]*bench{}}
}

// call is one action on one Pod.
type call struct {
	h       *Hands
	pod     *v1.Pod
	seen    podplan.Observed
	bench   *bench
	hooking func(container string, runs bool)
	applied podplan.Applied
	step    func(what string) (end func())
	ground  func()
	images  map[string]*runtimeapi.ImageSpec // of the image volumes that the container being started mounts, by volume
}

// Job is what actions are done to.
type Job struct {
	Pod     *v1.Pod
	Seen    podplan.Observed                  // on which the actions were decided
	Applied podplan.Applied                   // sizes that are in force
	Hooking func(container string, runs bool) // told when a container's postStart hook begins, and when it has succeeded
	Step    func(what string) (end func())    // told when a call to the runtime begins that may hang; nil: nobody listens
	Ground  func()                            // told by Furnish when the sandbox may be begun beside it: its cgroup is there and no volume lacks its object; nil: nobody listens
}

// Do performs one action.
func (h *Hands) Do(ctx context.Context, j Job, a podplan.Action) error {
	c := &call{h: h, pod: j.Pod, seen: j.Seen, applied: j.Applied, bench: h.bench(j.Pod.UID), hooking: j.Hooking, step: j.Step, ground: j.Ground}
	if c.step == nil {
		c.step = func(string) func() { return func() {} }
	}
	switch a := a.(type) {
	case podplan.Furnish:
		return c.furnish(ctx)
	case podplan.CreateSandbox:
		return c.createSandbox(ctx, a)
	case podplan.StopSandbox:
		return c.stopSandbox(ctx, a)
	case podplan.RemoveSandbox:
		return c.removeSandbox(ctx, a)
	case podplan.Start:
		return c.start(ctx, a)
	case podplan.Stop:
		return c.stop(ctx, a)
	case podplan.Resize:
		return c.resize(ctx, a)
	case podplan.RemoveContainer:
		return c.removeContainer(ctx, a)
	case podplan.Release:
		return c.release(ctx, a)
	}
	return fmt.Errorf("action %T has no hand", a)
}

// Refresh brings volumes up to date whose content follows API objects.
func (h *Hands) Refresh(ctx context.Context, pod *v1.Pod) error { return h.d.Volumes.Refresh(ctx, pod) }

// Forget drops what is remembered of a Pod.
func (h *Hands) Forget(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.benches, uid)
}

func (h *Hands) bench(uid types.UID) *bench {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.benches[uid]
	if b == nil {
		b = &bench{killing: map[string]bool{}, hooked: map[string]bool{}}
		h.benches[uid] = b
	}
	return b
}

func (c *call) put(f journal.Fact) {
	c.h.d.Journal.Put(journal.Ref{Namespace: c.pod.Namespace, Name: c.pod.Name, UID: string(c.pod.UID)}, f)
}

// podDir is the Pod's directory below the kubelet's.
func (c *call) podDir() string { return filepath.Join(c.h.d.Node.RootDir, "pods", string(c.pod.UID)) }

// LogDir is the directory of a Pod's logs below dir.
func LogDir(dir string, pod *v1.Pod) string {
	return filepath.Join(dir, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
}

// said is what the runtime says in an error, without the transport's words around it.
func said(err error) string {
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return err.Error()
}

// gone turns the answer that a record is not there into success.
func gone(err error) error {
	if status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}

func refuse(code reason.Code, err error) *reason.Refusal {
	return &reason.Refusal{Code: code, By: "kubelet/podexec", Detail: said(err), Err: err}
}

// inTurn makes a heavy call when there is a place for it, and states what it waited.
func (c *call) inTurn(ctx context.Context, urgency int, what string, call func() error) error {
	begin := time.Now()
	return c.h.gate.pass(ctx, urgency, func() error {
		defer c.step(what)()
		if waited := time.Since(begin); waited >= time.Millisecond {
			c.put(journal.Waited{For: what, Took: journal.Took(waited)})
		}
		return call()
	})
}
