package podexec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/kubelet/image/pull"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/reason"
)

// start makes sure of the image, makes the container, starts it, and runs its postStart hook.
func (c *call) start(ctx context.Context, a podplan.Start) error {
	m, ok := podplan.MemberOf(c.pod, a.Name)
	if !ok {
		return fmt.Errorf("container %s is not in the Pod's spec", a.Name)
	}
	box, err := c.sandboxConfig(ctx, c.attemptOf(a.Sandbox), func(string, string) {})
	if err != nil {
		return refuse(reason.CreateContainerConfigError, err)
	}
	ref, err := c.allImages(ctx, m, box)
	if err != nil {
		return err
	}
	cfg, err := c.containerConfig(ctx, m, a, ref)
	if err != nil {
		no := refuse(reason.CreateContainerConfigError, err)
		var own *reason.Refusal
		if errors.As(err, &own) {
			no = own
		}
		c.h.d.Events.Failed(c.pod, a.Name, no.Detail)
		return no
	}
	if err := os.MkdirAll(filepath.Dir(filepath.Join(box.LogDirectory, cfg.LogPath)), 0o755); err != nil {
		return refuse(reason.CreateContainerError, err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	calm, done := patient(ctx)
	defer done()
	var id string
	err = c.inTurn(ctx, finishing, "make container "+a.Name, func() (err error) {
		id, err = c.h.d.Runtime.CreateContainer(calm, a.Sandbox, cfg, box)
		return err
	})
	if err != nil {
		return c.failed(ctx, a.Name, reason.CreateContainerError, err)
	}
	c.h.d.Events.Created(c.pod, a.Name)
	return c.run(ctx, m, a, id)
}

// run starts a container that was made, and its hook.
func (c *call) run(ctx context.Context, m podplan.Member, a podplan.Start, id string) error {
	hook := m.Lifecycle != nil && m.Lifecycle.PostStart != nil
	if hook {
		c.hooking(a.Name, true)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	calm, done := patient(ctx)
	defer done()
	if err := c.inTurn(ctx, finishing, "start container "+a.Name, func() error { return c.h.d.Runtime.StartContainer(calm, id) }); err != nil {
		return c.failed(ctx, a.Name, reason.RunContainerError, err)
	}
	c.h.d.Events.Started(c.pod, a.Name)
	c.put(journal.ContainerStarted{Container: a.Name, ID: id, Restart: a.Attempt, Init: m.Kind == podplan.Init || m.Kind == podplan.Sidecar})
	if !hook {
		return nil
	}
	if err := c.lifecycle(ctx, m, id, m.Lifecycle.PostStart); err != nil {
		c.h.d.Events.Hook(c.pod, a.Name, "FailedPostStartHook", "PostStartHook failed")
		k := podplan.Kill{ID: id, Name: a.Name, Kind: m.Kind, Grace: podplan.Grace(c.pod), Event: "FailedPostStartHook", Cause: "postStart hook failed", Hook: true}
		if stopErr := c.stop(ctx, podplan.Stop{Kills: []podplan.Kill{k}}); stopErr != nil {
			err = errors.Join(err, stopErr)
		}
		return refuse(reason.PostStartHookError, err)
	}
	c.hooking(a.Name, false)
	return nil
}

// startPatience is how long a stop waits for a start that is under way: half a start would leave a container that failed, and of a sandbox that is given up nobody
// knows whether it comes.
const startPatience = 2 * time.Second

// ErrAtOnce is the cause of ending a context when what is under way is not to be waited for.
var ErrAtOnce = errors.New("not to be waited for")

// patient is a context that ends some time after the given one, unless that ended with ErrAtOnce.
func patient(ctx context.Context) (calm context.Context, done func()) {
	calm, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), ErrAtOnce) {
			cancel()
			return
		}
		t := time.AfterFunc(startPatience, cancel)
		context.AfterFunc(calm, func() { t.Stop() })
	})
	return calm, func() { stop(); cancel() }
}

func (c *call) failed(ctx context.Context, container string, code reason.Code, err error) error {
	if ctx.Err() == nil {
		c.h.d.Events.Failed(c.pod, container, said(err))
	}
	return refuse(code, err)
}

func (c *call) attemptOf(sandbox string) uint32 {
	for _, s := range c.seen.Sandboxes {
		if s.ID == sandbox {
			return s.Attempt
		}
	}
	return 0
}

// allImages makes sure of the images that the container mounts and of its own, and returns the reference to make it from.
func (c *call) allImages(ctx context.Context, m podplan.Member, box *runtimeapi.PodSandboxConfig) (string, error) {
	handler, err := c.h.d.Cluster.RuntimeHandler(ctx, deref(c.pod.Spec.RuntimeClassName))
	if err != nil {
		return "", refuse(reason.CreateContainerConfigError, err)
	}
	r := pull.Request{Pod: c.pod, Secrets: c.pullSecrets(ctx), Sandbox: box, Handler: handler}
	c.images = map[string]*runtimeapi.ImageSpec{}
	for _, vm := range m.VolumeMounts {
		if v := c.bench.mounted[vm.Name]; v.Image != "" && c.images[vm.Name] == nil {
			if c.images[vm.Name], err = c.imageVolume(ctx, m, v, r); err != nil {
				return "", err
			}
		}
	}
	r.Container, r.FieldPath = m.Container, events.FieldPath(c.pod, m.Name)
	return c.h.d.Puller.Ensure(ctx, r)
}

// imageVolume makes sure of the image of a volume. When it is not there, the container cannot be made.
func (c *call) imageVolume(ctx context.Context, m podplan.Member, v volume.Mounted, r pull.Request) (*runtimeapi.ImageSpec, error) {
	r.Image, r.Policy = v.Image, v.Pull
	ref, err := c.h.d.Puller.Ensure(ctx, r)
	if err != nil {
		var no *reason.Refusal
		if errors.As(err, &no) {
			c.h.d.Events.Failed(c.pod, m.Name, string(no.Code))
		}
		return nil, err
	}
	return &runtimeapi.ImageSpec{Image: ref, UserSpecifiedImage: v.Image, RuntimeHandler: r.Handler, Annotations: c.pod.Annotations}, nil
}

// pullSecrets are the Pod's imagePullSecrets that exist; a missing one is told, and the pull is tried without it.
func (c *call) pullSecrets(ctx context.Context) []*v1.Secret {
	var out []*v1.Secret
	for _, r := range c.pod.Spec.ImagePullSecrets {
		s, err := c.h.d.Volumes.Objects().GetSecret(ctx, c.pod.Namespace, r.Name)
		if err != nil {
			c.h.d.Events.Pod(c.pod, v1.EventTypeWarning, "FailedToRetrieveImagePullSecret",
				fmt.Sprintf("Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", r.Name))
			continue
		}
		out = append(out, s)
	}
	return out
}
