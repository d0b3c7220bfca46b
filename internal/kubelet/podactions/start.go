package podactions

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
	"github.com/gantry-project/gantry/internal/kubelet/images/pull"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/reason"
)

// startContainer makes sure of the image, makes the container, starts it, and runs its postStart
// hook.
func (c *operation) startContainer(ctx context.Context, a podplan.Start) error {
	m, ok := podplan.MemberOf(c.pod, a.Name)
	if !ok {
		return fmt.Errorf("container %s is not in the Pod's spec", a.Name)
	}
	sandbox, err := c.sandboxConfig(ctx, c.sandboxAttempt(a.Sandbox), func(string, string) {})
	if err != nil {
		return newRefusal(reason.CreateContainerConfigError, err)
	}
	ref, err := c.ensureImages(ctx, m, sandbox)
	if err != nil {
		return err
	}
	cfg, err := c.containerConfig(ctx, m, a, ref)
	if err != nil {
		refusal := newRefusal(reason.CreateContainerConfigError, err)
		var own *reason.Refusal
		if errors.As(err, &own) {
			refusal = own
		}
		c.executor.d.Events.Failed(c.pod, a.Name, refusal.Detail)
		return refusal
	}
	if err := os.MkdirAll(filepath.Dir(filepath.Join(sandbox.LogDirectory, cfg.LogPath)), 0o755); err != nil {
		return newRefusal(reason.CreateContainerError, err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	callCtx, done := withStartGrace(ctx)
	defer done()
	var id string
	err = c.callLimited(ctx, containerPriority, "make container "+a.Name, func() (err error) {
		id, err = c.executor.d.Runtime.CreateContainer(callCtx, a.Sandbox, cfg, sandbox)
		return err
	})
	if err != nil {
		return c.startFailed(ctx, a.Name, reason.CreateContainerError, err)
	}
	c.executor.d.Events.Created(c.pod, a.Name)
	return c.runContainer(ctx, m, a, id)
}

// runContainer starts a container that was made, and its hook.
func (c *operation) runContainer(ctx context.Context, m podplan.Member, a podplan.Start, id string) error {
	hook := m.Lifecycle != nil && m.Lifecycle.PostStart != nil
	if hook {
		c.hookRunning(a.Name, true)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	callCtx, done := withStartGrace(c.hooks)
	defer done()
	if err := c.callLimited(ctx, containerPriority, "start container "+a.Name,
		func() error { return c.executor.d.Runtime.StartContainer(callCtx, id) }); err != nil {
		return c.startFailed(ctx, a.Name, reason.RunContainerError, err)
	}
	c.executor.d.Events.Started(c.pod, a.Name)
	c.put(journal.ContainerStarted{Container: a.Name, ID: id, Restart: a.Attempt,
		Init: m.Kind == podplan.Init || m.Kind == podplan.Sidecar})
	if !hook {
		return nil
	}
	if err := c.runHook(c.hooks, m, id, m.Lifecycle.PostStart); err != nil {
		c.executor.d.Events.Hook(c.pod, a.Name, "FailedPostStartHook", "PostStartHook failed")
		k := podplan.Kill{ID: id, Name: a.Name, Kind: m.Kind, Grace: pod.GracePeriod(&c.pod.Spec),
			Event: "FailedPostStartHook", Cause: "postStart hook failed", RunPreStop: true}
		if stopErr := c.killContainers(c.hooks, podplan.Stop{Kills: []podplan.Kill{k}}); stopErr != nil {
			err = errors.Join(err, stopErr)
		}
		return newRefusal(reason.PostStartHookError, err)
	}
	c.hookRunning(a.Name, false)
	return nil
}

// startGrace is how long a stop waits for a start that is under way: of a sandbox that is given up
// nobody knows whether it comes. A container that is being started has the Pod's grace period
// beside: half a start would leave one that failed.
const startGrace = 2 * time.Second

// ErrNoWait is the cause of ending a context when what is under way is not to be waited for.
var ErrNoWait = errors.New("not to be waited for")

// withStartGrace is a context that ends some time after the given one, unless that ended with
// ErrNoWait.
func withStartGrace(ctx context.Context) (callCtx context.Context, done func()) {
	callCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), ErrNoWait) {
			cancel()
			return
		}
		t := time.AfterFunc(startGrace, cancel)
		context.AfterFunc(callCtx, func() { t.Stop() })
	})
	return callCtx, func() { stop(); cancel() }
}

func (c *operation) startFailed(ctx context.Context, container string, code reason.Code, err error) error {
	if ctx.Err() == nil {
		c.executor.d.Events.Failed(c.pod, container, runtimeMessage(err))
	}
	return newRefusal(code, err)
}

func (c *operation) sandboxAttempt(sandbox string) uint32 {
	for _, s := range c.observed.Sandboxes {
		if s.ID == sandbox {
			return s.Attempt
		}
	}
	return 0
}

// ensureImages makes sure of the images that the container mounts and of its own, and returns the
// reference to make it from. That a pull secret is missing is told when a pull has failed.
func (c *operation) ensureImages(ctx context.Context, m podplan.Member,
	sandbox *runtimeapi.PodSandboxConfig) (ref string, err error) {
	handler, err := c.executor.d.Cluster.RuntimeHandler(ctx, deref(c.pod.Spec.RuntimeClassName))
	if err != nil {
		return "", newRefusal(reason.CreateContainerConfigError, err)
	}
	secrets, missing := c.pullSecrets(ctx)
	defer func() {
		if refusal := (*reason.Refusal)(nil); len(missing) > 0 && errors.As(err, &refusal) &&
			refusal.Code == reason.ErrImagePull {
			c.executor.d.Events.PullSecretsMissing(c.pod, missing)
		}
	}()
	r := pull.Request{Pod: c.pod, Secrets: secrets, Sandbox: sandbox, Handler: handler}
	c.images = map[string]*runtimeapi.ImageSpec{}
	for _, vm := range m.VolumeMounts {
		if v := c.state.mounted[vm.Name]; v.Image != "" && c.images[vm.Name] == nil {
			if c.images[vm.Name], err = c.imageVolume(ctx, m, v, r); err != nil {
				return "", err
			}
		}
	}
	r.Container, r.FieldPath = m.Container, events.FieldPath(c.pod, m.Name)
	return c.executor.d.Puller.EnsureImageExists(ctx, r)
}

// imageVolume makes sure of the image of a volume. When it is not there, the container cannot be
// made.
func (c *operation) imageVolume(ctx context.Context, m podplan.Member, v volume.Mounted,
	r pull.Request) (*runtimeapi.ImageSpec, error) {
	r.Image, r.Policy = v.Image, v.PullPolicy
	ref, err := c.executor.d.Puller.EnsureImageExists(ctx, r)
	if err != nil {
		var refusal *reason.Refusal
		if errors.As(err, &refusal) {
			c.executor.d.Events.Failed(c.pod, m.Name, string(refusal.Code))
		}
		return nil, err
	}
	return &runtimeapi.ImageSpec{Image: ref, UserSpecifiedImage: v.Image, RuntimeHandler: r.Handler,
		Annotations: c.pod.Annotations}, nil
}

// pullSecrets are the Pod's imagePullSecrets that exist, and the names of those that do not.
func (c *operation) pullSecrets(ctx context.Context) (secrets []*v1.Secret, missing []string) {
	for _, r := range c.pod.Spec.ImagePullSecrets {
		s, err := c.executor.d.Volumes.Objects().GetSecret(ctx, c.pod.Namespace, r.Name)
		if err != nil {
			missing = append(missing, r.Name)
			continue
		}
		secrets = append(secrets, s)
	}
	return secrets, missing
}
