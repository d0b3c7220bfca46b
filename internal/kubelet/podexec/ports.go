package podexec

import (
	"context"
	"net/http"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	internalapi "k8s.io/cri-api/pkg/apis"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/events"
	"github.com/gantry-project/gantry/internal/kubelet/image/pull"
	"github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/kubelet/volume/furnish"
)

// Puller makes sure of images; pull.Puller is one.
type Puller interface {
	Ensure(ctx context.Context, r pull.Request) (ref string, err error)
}

// Volumes furnishes Pods; furnish.Furnisher does.
type Volumes interface {
	Named(ctx context.Context, pod *v1.Pod) bool
	Ensure(ctx context.Context, pod *v1.Pod) (map[string]volume.Mounted, error)
	Refresh(ctx context.Context, pod *v1.Pod) error
	Release(ctx context.Context, uid types.UID) error
	Prepare(ctx context.Context, s furnish.SubPath) (string, error)
	Objects() volume.Objects
}

// Cgroups holds the cgroup tree; app wraps linux/cgroup's.
type Cgroups interface {
	Ensure(path string, v resource.Values) error
	Remove(path string) error
}

// Cluster reads what a Pod's configuration refers to in the API besides ConfigMaps and Secrets.
type Cluster interface {
	// Services of a namespace and the kubernetes Service of the default one; an error until they have been read once.
	Services(namespace string) ([]*v1.Service, error)
	// RuntimeHandler is the handler of a RuntimeClass; "" for "".
	RuntimeHandler(ctx context.Context, class string) (string, error)
}

// Forgetter is told of records removed from the runtime; observe.Watcher is one.
type Forgetter interface{ Drop(ids ...string) }

// Deps is what Hands work with.
type Deps struct {
	Runtime internalapi.RuntimeService
	Images  internalapi.ImageManagerService
	Puller  Puller
	Volumes Volumes
	Cgroups Cgroups
	Cluster Cluster
	Users   Users
	Seen    Forgetter
	HTTP    *http.Client // for lifecycle hooks
	Events  *events.Recorder
	Journal journal.Sink
	Node    Node
}

// Node is what containers' configuration takes from their node.
type Node struct {
	Name           string
	RootDir        string // of Pods' directories, /var/lib/kubelet upstream
	LogDir         string // of Pods' logs, /var/log/pods upstream
	ResolvConf     string // file, /etc/resolv.conf upstream; empty for none
	ClusterDomain  string
	ClusterDNS     []string
	SeccompDefault bool // RuntimeDefault where a Pod says nothing, else Unconfined
	Resources      resource.Options
	HostIPs        func() []string
	Capacity       func() v1.ResourceList // of the node
	Allocatable    func() v1.ResourceList // of the node
}
