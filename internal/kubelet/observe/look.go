package observe

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

// Look reads what the runtime has of one Pod now.
func (w *Watcher) Look(ctx context.Context, uid types.UID) (podplan.Observed, error) {
	labels := map[string]string{kubelettypes.KubernetesPodUIDLabel: string(uid)}
	out := podplan.Observed{At: time.Now()}
	var boxes []*runtimeapi.PodSandbox
	var list []*runtimeapi.Container
	both, one := errgroup.WithContext(ctx)
	both.Go(func() (err error) {
		if boxes, err = w.d.Runtime.ListPodSandbox(one, &runtimeapi.PodSandboxFilter{LabelSelector: labels}); err != nil {
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
	for _, b := range boxes {
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
	w.remember(uid, printOf(boxes, list), list)
	return out, nil
}

func (w *Watcher) sandbox(ctx context.Context, b *runtimeapi.PodSandbox) (podplan.Sandbox, error) {
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

// container reads one container, from memory where it cannot have changed; ok is false when it is gone.
func (w *Watcher) container(ctx context.Context, c *runtimeapi.Container) (seen podplan.Container, ok bool, err error) {
	w.mu.Lock()
	if seen, ok = w.ended[c.Id]; !ok && c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
		seen, ok = w.alive[c.Id]
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
		w.ended[c.Id] = seen
		delete(w.alive, c.Id)
	case podplan.Running:
		w.alive[c.Id] = seen
	}
	w.mu.Unlock()
	return seen, true, nil
}

// remember notes what was seen, and drops what the runtime has forgotten.
func (w *Watcher) remember(uid types.UID, fingerprint string, list []*runtimeapi.Container) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if fingerprint == "" {
		delete(w.marks, uid)
		return
	}
	m := w.marks[uid]
	m.fingerprint = fingerprint
	w.marks[uid] = m
	for _, c := range list {
		if c.State == runtimeapi.ContainerState_CONTAINER_EXITED {
			delete(w.alive, c.Id)
		}
	}
}

// Drop forgets the records of containers and sandboxes that were removed from the runtime.
func (w *Watcher) Drop(ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		delete(w.ended, id)
		delete(w.alive, id)
		delete(w.ips, id)
	}
}

// Found is a Pod that the runtime has something of.
type Found struct {
	UID             types.UID
	Namespace, Name string
	Annotations     map[string]string // the Pod's own
	Containers      []FoundContainer
}

// FoundContainer is one container of a found Pod, with what the kubelet wrote onto it.
type FoundContainer struct {
	Name        string
	Annotations map[string]string
}

// Found lists the Pods the runtime has something of.
func (w *Watcher) Found(ctx context.Context) ([]Found, error) {
	boxes, err := w.d.Runtime.ListPodSandbox(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	list, err := w.d.Runtime.ListContainers(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	byUID := map[types.UID]*Found{}
	at := func(labels map[string]string) *Found {
		uid := types.UID(labels[kubelettypes.KubernetesPodUIDLabel])
		if uid == "" {
			return nil
		}
		if byUID[uid] == nil {
			byUID[uid] = &Found{UID: uid, Namespace: labels[kubelettypes.KubernetesPodNamespaceLabel], Name: labels[kubelettypes.KubernetesPodNameLabel]}
		}
		return byUID[uid]
	}
	for _, b := range boxes {
		if f := at(b.Labels); f != nil {
			f.Annotations = b.Annotations
		}
	}
	for _, c := range list {
		if f := at(c.Labels); f != nil {
			f.Containers = append(f.Containers, FoundContainer{c.Labels[kubelettypes.KubernetesContainerNameLabel], c.Annotations})
		}
	}
	out := make([]Found, 0, len(byUID))
	for _, f := range byUID {
		out = append(out, *f)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].UID < out[j].UID })
	return out, nil
}

// prints are the fingerprints of all Pods the runtime has.
func (w *Watcher) prints(ctx context.Context) (map[types.UID]string, error) {
	boxes, err := w.d.Runtime.ListPodSandbox(ctx, nil)
	if err != nil {
		return nil, err
	}
	list, err := w.d.Runtime.ListContainers(ctx, nil)
	if err != nil {
		return nil, err
	}
	boxesOf, listOf := map[types.UID][]*runtimeapi.PodSandbox{}, map[types.UID][]*runtimeapi.Container{}
	for _, b := range boxes {
		uid := types.UID(b.Labels[kubelettypes.KubernetesPodUIDLabel])
		boxesOf[uid] = append(boxesOf[uid], b)
	}
	for _, c := range list {
		uid := types.UID(c.Labels[kubelettypes.KubernetesPodUIDLabel])
		listOf[uid] = append(listOf[uid], c)
	}
	out := map[types.UID]string{}
	for uid := range boxesOf {
		out[uid] = ""
	}
	for uid := range listOf {
		out[uid] = ""
	}
	delete(out, "")
	for uid := range out {
		out[uid] = printOf(boxesOf[uid], listOf[uid])
	}
	return out, nil
}

// printOf is a Pod's records in a form that can be compared; empty for none.
func printOf(boxes []*runtimeapi.PodSandbox, list []*runtimeapi.Container) string {
	parts := make([]string, 0, len(boxes)+len(list))
	for _, b := range boxes {
		parts = append(parts, fmt.Sprintf("s%s=%d", b.Id, b.State))
	}
	for _, c := range list {
		parts = append(parts, fmt.Sprintf("c%s=%d", c.Id, c.State))
	}
	sort.Strings(parts)
	return strings.Join(parts, " ")
}

// printOfEvent is printOf of what an event carries.
func printOfEvent(e *runtimeapi.ContainerEventResponse) string {
	s := e.GetPodSandboxStatus()
	boxes := []*runtimeapi.PodSandbox{{Id: s.GetId(), State: s.GetState()}}
	var list []*runtimeapi.Container
	for _, c := range e.GetContainersStatuses() {
		list = append(list, &runtimeapi.Container{Id: c.GetId(), State: c.GetState()})
	}
	return printOf(boxes, list)
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
