package cri

import (
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

// Labels that the kubelet sets on sandboxes and containers; they identify the Pod, also after a
// restart.
const (
	labelPodName   = "io.kubernetes.pod.name"
	labelNamespace = "io.kubernetes.pod.namespace"
	labelPodUID    = "io.kubernetes.pod.uid"
	labelContainer = "io.kubernetes.container.name"
)

// callLog journals one journal.Called per changing call.
type callLog struct {
	sink journal.Sink
	refs *refs
}

// call runs do and journals it for ref. Calls with an unknown id, whose ref has no name, are not
// journaled.
func (l *callLog) call(method string, ref journal.Ref, target string, do func() error) error {
	start := time.Now()
	err := do()
	if ref.Name == "" {
		return err
	}
	fact := journal.Called{Service: "CRI", Method: method, Target: target, Took: journal.Took(time.Since(start))}
	if err != nil {
		fact.Error = err.Error()
	}
	l.sink.Put(ref, fact)
	return err
}

// owner is the Pod of a sandbox or container; container is empty for a sandbox.
type owner struct {
	ref       journal.Ref
	container string
}

// refs maps sandbox and container ids to their Pods, learned from creations and listings. It is
// safe for concurrent use.
type refs struct {
	mu     sync.RWMutex
	owners map[string]owner
}

func newRefs() *refs { return &refs{owners: map[string]owner{}} }

func (r *refs) get(id string) owner {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.owners[id]
}

func (r *refs) put(id string, o owner) {
	if id == "" || o.ref.Name == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owners[id] = o
}

func (r *refs) forget(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.owners, id)
}

func (r *refs) rememberSandboxes(list []*runtimeapi.PodSandbox) {
	for _, s := range list {
		if r.get(s.Id).ref.Name == "" {
			r.put(s.Id, owner{ref: sandboxRef(s.Metadata)})
		}
	}
}

func (r *refs) rememberContainers(list []*runtimeapi.Container) {
	for _, c := range list {
		if r.get(c.Id).ref.Name == "" {
			r.put(c.Id, r.containerOwner(c.PodSandboxId, c.Metadata.GetName(), c.Labels))
		}
	}
}

// containerOwner returns the owner by the kubelet's labels, else by the sandbox, which containers
// of other clients have as well.
func (r *refs) containerOwner(sandbox, name string, labels map[string]string) owner {
	if n := labels[labelContainer]; n != "" {
		name = n
	}
	if labels[labelPodName] == "" {
		return owner{ref: r.get(sandbox).ref, container: name}
	}
	return owner{container: name, ref: journal.Ref{Namespace: labels[labelNamespace], Name: labels[labelPodName],
		UID: labels[labelPodUID]}}
}

func sandboxRef(m *runtimeapi.PodSandboxMetadata) journal.Ref {
	return journal.Ref{Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUid()}
}

func imageRef(i *runtimeapi.ImageSpec) journal.Ref {
	return journal.Ref{Kind: "Image", Name: i.GetImage()}
}
