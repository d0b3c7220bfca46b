package kubelet

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
	"github.com/gantry-project/gantry/internal/pod/usage"
)

// Inspector looks at what a Pod does on this machine and at what a registry has. Nothing the
// kubelet decides depends on it: it is for those who ask why.
type Inspector interface {
	// Listening are the sockets, address:port, on which processes take connections in the network
	// of a cgroup's processes.
	Listening(cgroup string) ([]string, error)
	// Measure reads what a cgroup uses.
	Measure(cgroup string) (usage.Cgroup, error)
	// Tags are those a registry has of an image's repository.
	Tags(ctx context.Context, image string, auth *runtimeapi.AuthConfig) ([]string, error)
	// PullProgress are the bytes that are there of an image being pulled, and those in all; false
	// when the runtime does not tell.
	PullProgress(ctx context.Context, image string) (done, total int64, ok bool)
}

// Sockets are where the Pod's processes take TCP connections, or why that is not known.
func (k *Kubelet) Sockets(p *v1.Pod) ([]string, error) {
	switch {
	case k.opts.Dependencies.Inspector == nil:
		return nil, errors.New("this kubelet does not look at sockets")
	case p.Spec.HostNetwork:
		return nil, errors.New("the Pod is in the node's network, where its sockets cannot be told from the node's own")
	}
	return k.opts.Dependencies.Inspector.Listening(k.opts.Resources.PodPath(p))
}

// listeningSockets are where the Pod's processes listen. Those of a Pod in the node's network
// cannot be told from the node's own.
func (k *Kubelet) listeningSockets(p *v1.Pod) []string {
	if k.opts.Dependencies.Inspector == nil || p.Spec.HostNetwork {
		return nil
	}
	found, err := k.opts.Dependencies.Inspector.Listening(k.opts.Resources.PodPath(p))
	if err != nil {
		return nil // the Pod ended meanwhile
	}
	return found
}

func (k *Kubelet) memoryStats(p *v1.Pod) journal.Memory {
	if k.opts.Dependencies.Inspector == nil {
		return journal.Memory{}
	}
	u, err := k.opts.Dependencies.Inspector.Measure(k.opts.Resources.PodPath(p))
	if err != nil {
		return journal.Memory{} // the cgroup is gone
	}
	return journal.Memory{Peak: u.Memory.Peak, LimitHits: u.Memory.LimitHits, Kills: u.Memory.OOMKills}
}

// PortForwarded is told that somebody asked for ports of the Pod.
func (k *Kubelet) PortForwarded(p *v1.Pod) {
	if s := k.listeningSockets(p); len(s) > 0 {
		k.opts.Journal.Put(pod.Ref(p), journal.Forwarded{Listening: s})
	}
}
