package podactions

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

// Executor performs actions. Calls for one Pod come one after another, but for PrepareVolumes and
// the CreateSandbox beside it; calls for different Pods may be concurrent.
type Executor struct {
	d       Deps
	limiter *callLimiter

	mu     sync.Mutex
	states map[types.UID]*podState
}

// podState is what is at hand for one Pod while this kubelet lives.
type podState struct {
	mounted       map[string]volume.Mounted
	userNamespace *runtimeapi.UserNamespace // the Pod's own, once they were given
	mu            sync.Mutex
	killing       map[string]bool // container ids with what their Killing events said
	preStopped    map[string]bool // container ids whose preStop hook was begun
}

// New returns an Executor.
func New(d Deps) *Executor {
	return &Executor{d: d, limiter: newCallLimiter(2 * runtime.NumCPU()), states: map[types.UID]*podState{}}
}

// operation is one action on one Pod.
type operation struct {
	executor    *Executor
	pod         *v1.Pod
	observed    podplan.Observed
	state       *podState
	hookRunning func(container string, runs bool)
	applied     podplan.Applied
	step        func(what string) (end func())
	cgroupReady func()
	hooks       context.Context
	// of the image volumes that the container being started mounts, by volume
	images map[string]*runtimeapi.ImageSpec
}

// Job is what actions are done to.
type Job struct {
	Pod      *v1.Pod
	Observed podplan.Observed // on which the actions were decided
	Applied  podplan.Applied  // sizes that are in force
	// called when a container's postStart hook begins, and when it has succeeded
	HookRunning func(container string, runs bool)
	// Hooks ends with the Pod's grace period: a postStart hook that runs when the Pod is told to
	// stop, which ends the context of the action, may take until then. Nil: it ends with the action
	Hooks context.Context
	// called when a call to the runtime begins that may hang; may be nil
	Step func(what string) (end func())
	// called by PrepareVolumes when the sandbox may be begun beside it: its cgroup is there and no
	// volume lacks its object; may be nil
	CgroupReady func()
}

// Do performs one action.
func (h *Executor) Do(ctx context.Context, j Job, a podplan.Action) error {
	c := &operation{executor: h, pod: j.Pod, observed: j.Observed, applied: j.Applied, state: h.stateOf(j.Pod.UID),
		hookRunning: j.HookRunning, step: j.Step, cgroupReady: j.CgroupReady, hooks: j.Hooks}
	if c.hooks == nil {
		c.hooks = ctx
	}
	if c.step == nil {
		c.step = func(string) func() { return func() {} }
	}
	switch a := a.(type) {
	case podplan.PrepareVolumes:
		return c.prepareVolumes(ctx)
	case podplan.CreateSandbox:
		return c.createSandbox(ctx, a)
	case podplan.StopSandbox:
		return c.stopSandbox(ctx, a)
	case podplan.RemoveSandbox:
		return c.removeSandbox(ctx, a)
	case podplan.Start:
		return c.startContainer(ctx, a)
	case podplan.Stop:
		return c.killContainers(ctx, a)
	case podplan.Resize:
		return c.resizeContainers(ctx, a)
	case podplan.RemoveContainer:
		return c.removeContainer(ctx, a)
	case podplan.UnprepareResources:
		return c.unprepareResources(ctx)
	case podplan.Release:
		return c.releasePod(ctx, a)
	}
	return fmt.Errorf("action %T has no hand", a)
}

// Refresh brings volumes up to date whose content follows API objects.
func (h *Executor) Refresh(ctx context.Context, pod *v1.Pod) error {
	return h.d.Volumes.RefreshVolumes(ctx, pod)
}

// Forget drops what is remembered of a Pod.
func (h *Executor) Forget(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.states, uid)
}

func (h *Executor) stateOf(uid types.UID) *podState {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.states[uid]
	if b == nil {
		b = &podState{killing: map[string]bool{}, preStopped: map[string]bool{}}
		h.states[uid] = b
	}
	return b
}

func (c *operation) put(f journal.Fact) {
	c.executor.d.Journal.Put(journal.Ref{Namespace: c.pod.Namespace, Name: c.pod.Name, UID: string(c.pod.UID)}, f)
}

// podDir is the Pod's directory below the kubelet's.
func (c *operation) podDir() string {
	return filepath.Join(c.executor.d.Node.RootDir, "pods", string(c.pod.UID))
}

// LogDir is the directory of a Pod's logs below dir.
func LogDir(dir string, pod *v1.Pod) string {
	return filepath.Join(dir, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
}

// runtimeMessage is what the runtime says in an error, without the transport's words around it.
func runtimeMessage(err error) string {
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return err.Error()
}

// ignoreNotFound turns the answer that a record is not there into success.
func ignoreNotFound(err error) error {
	if status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}

func newRefusal(code reason.Code, err error) *reason.Refusal {
	return &reason.Refusal{Code: code, By: "kubelet/podexec", Detail: runtimeMessage(err), Err: err}
}

// callLimited makes a heavy call when there is a place for it, and states what it waited.
func (c *operation) callLimited(ctx context.Context, urgency int, what string, call func() error) error {
	startedAt := time.Now()
	return c.executor.limiter.run(ctx, urgency, func() error {
		defer c.step(what)()
		if waited := time.Since(startedAt); waited >= time.Millisecond {
			c.put(journal.Waited{For: what, Took: journal.Took(waited)})
		}
		return call()
	})
}
