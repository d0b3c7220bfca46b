package pleg

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelettypes "k8s.io/kubelet/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/podplan"
)

// GetPodStatus reads what the runtime has of one Pod now.
func (w *PLEG) GetPodStatus(ctx context.Context, uid types.UID) (podplan.Observed, error) {
	labels := map[string]string{kubelettypes.KubernetesPodUIDLabel: string(uid)}
	out := podplan.Observed{At: time.Now()}
	var sandboxes []*runtimeapi.PodSandbox
	var list []*runtimeapi.Container
	both, one := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		if sandboxes, err = w.d.Runtime.ListPodSandbox(one, &runtimeapi.PodSandboxFilter{LabelSelector: labels}); err !=
			nil {
			return fmt.Errorf("list sandboxes of Pod %s: %w", uid, err)
		}
		return nil
	})
	both.Go(func() (err error) {
		if list, err = w.d.Runtime.ListContainers(one, &runtimeapi.ContainerFilter{LabelSelector: labels}); err != nil {
			return fmt.Errorf("list containers of Pod %s: %w", uid, err)
		}
		return nil
	})
	if err := both.Wait(); err != nil {
		return out, err
	}
	for _, b := range sandboxes {
		s, err := w.sandbox(ctx, b)
		if err != nil {
			return out, err
		}
		out.Sandboxes = append(out.Sandboxes, s)
	}
	for _, c := range list {
		seen, ok, err := w.container(ctx, c)
		if err != nil {
			return out, err
		}
		if ok {
			out.Containers = append(out.Containers, seen)
		}
	}
	out.Sort()
	w.updateCache(uid, fingerprintOf(sandboxes, list), list)
	return out, nil
}

func (w *PLEG) sandbox(ctx context.Context, b *runtimeapi.PodSandbox) (podplan.Sandbox, error) {
	s := podplan.Sandbox{
		ID: b.Id, Attempt: b.GetMetadata().GetAttempt(), Created: nanos(b.CreatedAt),
		Ready: b.State == runtimeapi.PodSandboxState_SANDBOX_READY,
	}
	w.mu.Lock()
	ips, known := w.ips[b.Id]
	w.mu.Unlock()
	if !known && s.Ready {
		r, err := w.d.Runtime.PodSandboxStatus(ctx, b.Id, false)
		switch {
		case notFound(err):
			s.Ready = false
			return s, nil
		case err != nil:
			return s, fmt.Errorf("status of sandbox %s: %w", b.Id, err)
		}
		ips = addresses(r.GetStatus().GetNetwork())
		w.mu.Lock()
		w.ips[b.Id] = ips
		w.mu.Unlock()
	}
	s.IPs = ips
	return s, nil
}

func addresses(n *runtimeapi.PodSandboxNetworkStatus) []string {
	if n.GetIp() == "" {
		return nil
	}
	ips := []string{n.Ip}
	for _, more := range n.AdditionalIps {
		ips = append(ips, more.Ip)
	}
	return ips
}

// container reads one container, from memory where it cannot have changed; ok is false when it is
// gone.
func (w *PLEG) container(ctx context.Context, c *runtimeapi.Container) (seen podplan.Container, ok bool, err error) {
	w.mu.Lock()
	if seen, ok = w.exited[c.Id]; !ok && c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
		seen, ok = w.running[c.Id]
	}
	w.mu.Unlock()
	if ok {
		return seen, true, nil
	}
	r, err := w.d.Runtime.ContainerStatus(ctx, c.Id, false)
	switch {
	case notFound(err):
		return podplan.Container{}, false, nil
	case err != nil:
		return podplan.Container{}, false, fmt.Errorf("status of container %s: %w", c.Id, err)
	}
	seen = convert(r.GetStatus(), c.PodSandboxId)
	w.mu.Lock()
	switch seen.State {
	case podplan.Exited:
		w.exited[c.Id] = seen
		delete(w.running, c.Id)
	case podplan.Running:
		w.running[c.Id] = seen
	}
	w.mu.Unlock()
	return seen, true, nil
}

// updateCache notes what was seen, and drops what the runtime has forgotten.
func (w *PLEG) updateCache(uid types.UID, fingerprint string, list []*runtimeapi.Container) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if fingerprint == "" {
		delete(w.records, uid)
		return
	}
	m := w.records[uid]
	m.fingerprint = fingerprint
	w.records[uid] = m
	for _, c := range list {
		if c.State == runtimeapi.ContainerState_CONTAINER_EXITED {
			delete(w.running, c.Id)
		}
	}
}

// Forget forgets the records of containers and sandboxes that were removed from the runtime.
func (w *PLEG) Forget(ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		delete(w.exited, id)
		delete(w.running, id)
		delete(w.ips, id)
	}
}

// RuntimePod is a Pod that the runtime has something of.
type RuntimePod struct {
	UID             types.UID
	Namespace, Name string
	Annotations     map[string]string // the Pod's own
	Containers      []RuntimePodContainer
}

// RuntimePodContainer is one container of a found Pod, with what the kubelet wrote onto it.
type RuntimePodContainer struct {
	Name        string
	Annotations map[string]string
}

// ListPods lists the Pods the runtime has something of.
func (w *PLEG) ListPods(ctx context.Context) ([]RuntimePod, error) {
	sandboxes, err := w.d.Runtime.ListPodSandbox(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	list, err := w.d.Runtime.ListContainers(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	byUID := map[types.UID]*RuntimePod{}
	at := func(labels map[string]string) *RuntimePod {
		uid := types.UID(labels[kubelettypes.KubernetesPodUIDLabel])
		if uid == "" {
			return nil
		}
		if byUID[uid] == nil {
			byUID[uid] = &RuntimePod{UID: uid, Namespace: labels[kubelettypes.KubernetesPodNamespaceLabel],
				Name: labels[kubelettypes.KubernetesPodNameLabel]}
		}
		return byUID[uid]
	}
	for _, b := range sandboxes {
		if f := at(b.Labels); f != nil {
			f.Annotations = b.Annotations
		}
	}
	for _, c := range list {
		if f := at(c.Labels); f != nil {
			f.Containers = append(f.Containers, RuntimePodContainer{c.Labels[kubelettypes.KubernetesContainerNameLabel],
				c.Annotations})
		}
	}
	out := make([]RuntimePod, 0, len(byUID))
	for _, f := range byUID {
		out = append(out, *f)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].UID < out[j].UID })
	return out, nil
}

// fingerprints are the fingerprints of all Pods the runtime has.
func (w *PLEG) fingerprints(ctx context.Context) (map[types.UID]string, error) {
	sandboxes, err := w.d.Runtime.ListPodSandbox(ctx, nil)
	if err != nil {
		return nil, err
	}
	list, err := w.d.Runtime.ListContainers(ctx, nil)
	if err != nil {
		return nil, err
	}
	sandboxesByPod, containersByPod := map[types.UID][]*runtimeapi.PodSandbox{}, map[types.UID][]*runtimeapi.Container{}
	for _, b := range sandboxes {
		uid := types.UID(b.Labels[kubelettypes.KubernetesPodUIDLabel])
		sandboxesByPod[uid] = append(sandboxesByPod[uid], b)
	}
	for _, c := range list {
		uid := types.UID(c.Labels[kubelettypes.KubernetesPodUIDLabel])
		containersByPod[uid] = append(containersByPod[uid], c)
	}
	out := map[types.UID]string{}
	for uid := range sandboxesByPod {
		out[uid] = ""
	}
	for uid := range containersByPod {
		out[uid] = ""
	}
	delete(out, "")
	for uid := range out {
		out[uid] = fingerprintOf(sandboxesByPod[uid], containersByPod[uid])
	}
	return out, nil
}

// fingerprintOf is a Pod's records in a form that can be compared; empty for none.
func fingerprintOf(sandboxes []*runtimeapi.PodSandbox, list []*runtimeapi.Container) string {
	parts := make([]string, 0, len(sandboxes)+len(list))
	for _, b := range sandboxes {
		parts = append(parts, fmt.Sprintf("s%s=%d", b.Id, b.State))
	}
	for _, c := range list {
		parts = append(parts, fmt.Sprintf("c%s=%d", c.Id, c.State))
	}
	sort.Strings(parts)
	return strings.Join(parts, " ")
}

// eventFingerprint is fingerprintOf of what an event carries.
func eventFingerprint(e *runtimeapi.ContainerEventResponse) string {
	s := e.GetPodSandboxStatus()
	sandboxes := []*runtimeapi.PodSandbox{{Id: s.GetId(), State: s.GetState()}}
	var list []*runtimeapi.Container
	for _, c := range e.GetContainersStatuses() {
		list = append(list, &runtimeapi.Container{Id: c.GetId(), State: c.GetState()})
	}
	return fingerprintOf(sandboxes, list)
}

func notFound(err error) bool {
	var s interface{ GRPCStatus() *status.Status }
	return errors.As(err, &s) && s.GRPCStatus().Code() == codes.NotFound
}

func nanos(n int64) time.Time {
	if n <= 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}
