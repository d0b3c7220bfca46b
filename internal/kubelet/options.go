package kubelet

import (
	"errors"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	internalapi "k8s.io/cri-api/pkg/apis"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/devicemanager/plugin"
	"github.com/gantry-project/gantry/internal/kubelet/images"
	"github.com/gantry-project/gantry/internal/kubelet/images/credentialprovider"
	"github.com/gantry-project/gantry/internal/kubelet/machine"
	"github.com/gantry-project/gantry/internal/kubelet/metrics"
	"github.com/gantry-project/gantry/internal/kubelet/pluginmanager"
	"github.com/gantry-project/gantry/internal/kubelet/podactions"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podsource/static"
	"github.com/gantry-project/gantry/internal/kubelet/probe/dial"
	"github.com/gantry-project/gantry/internal/kubelet/resource"
	"github.com/gantry-project/gantry/internal/kubelet/userns"
	"github.com/gantry-project/gantry/internal/kubelet/volume"
	"github.com/gantry-project/gantry/internal/reason"
)

// Options are what a Kubelet is made of. Fields without a note are required.
type Options struct {
	Client       kubernetes.Interface
	NodeName     string
	Config       *kubeletconfig.KubeletConfiguration // nil: upstream's defaults
	Runtime      internalapi.RuntimeService
	Images       internalapi.ImageManagerService
	PodStatus    PodStatus
	RootDir      string // /var/lib/kubelet when empty
	LogDir       string // of Pods' logs; Config.PodLogsDir, then /var/log/pods when empty
	Dependencies Dependencies
	Resources    resource.Options
	Recorder     record.EventRecorder     // nil: events go to the API
	Journal      journal.Sink             // nil: no journal
	Plugins      credentialprovider.Files // of credential providers
	StaticPods   StaticPods
	// Housekeeping is how often the node's own directories and cgroups are looked through for what
	// no Pod owns; 0 is upstream's 2 s.
	Housekeeping time.Duration
}

// PodStatus is how statuses of Pods read.
type PodStatus struct {
	RuntimeName string // in container ids; "containerd" when empty
	V136        bool   // conditions and probes are those of v1.36 (--emulated-version)
}

// StaticPods is how Pods run that no API server gave out.
type StaticPods struct {
	Rules      static.Rules // of the API for Pods; required when the configuration names static Pods
	Standalone bool         // there is no API server: Client is never waited for
}

// Dependencies are the interfaces of runtime, kernel and network that app gives the kubelet.
type Dependencies struct {
	HostIPs func() []string
	Cgroups Cgroups
	Mounts  volume.Mounter
	// for exec probes, which the journal keeps apart; Options.Runtime when nil
	ProbeRuntime internalapi.RuntimeService
	// opens connections of network probes and hooks; nil dials the network
	Dial     dial.Func
	Capacity func() v1.ResourceList // of the node; nil takes the Node object's
	// of the file system path is on; nil: images are never collected
	Disk         func(path string) (images.Disk, error)
	Allocatable  func() v1.ResourceList // of the node; nil takes the Node object's
	NodeShutdown func() *reason.Refusal // why no Pod is taken in now; nil: Pods are
	// this node as long as the API has not told of it; nil: not known
	LocalNode func() *v1.Node
	Metrics   *metrics.Metrics // counts what is done; may be nil
	// this machine's CPUs and memory; nil: no CPUs or memory are given away
	Machine *machine.Info
	PluginServices
	NodeStatus
	Inspector Inspector // looks at Pods for those who ask why; nil: nobody looks
}

// NodeStatus is what the kubelet asks and tells of the node's status, and with what it ends
// containers when the node is short.
type NodeStatus struct {
	// conditions of the node under which some Pods are not taken in, by name; nil: there are none
	Pressure func() []v1.NodeConditionType
	// the node's status has changed and is to be written soon; must not block; nil: nobody writes
	// it
	NodeStatusChanged func()
	// signals containers past the runtime under a hard threshold; nil: the runtime alone does
	Processes podactions.Processes
}

// PluginServices is how plugins come to a kubelet.
type PluginServices struct {
	// sockets of device plugins, DRA drivers and the PodResources API; nil: none of them
	Sockets plugin.Sockets
	// registers CSI drivers, device plugins and DRA drivers; the kubelet adds its handlers and runs
	// it. Nil: nobody registers
	PluginManager *pluginmanager.Manager
	// keeps the devices of raw volumes open; required where there are such
	FileDevices volume.FileDevices
}

// Cgroups holds the cgroup tree.
type Cgroups interface {
	podactions.Cgroups
	List(parent string) ([]string, error) // names of the children; none when the parent is not there
}

func (o *Options) complete() error {
	switch {
	case o.Client == nil:
		return errors.New("kubelet: Client is missing")
	case o.NodeName == "":
		return errors.New("kubelet: NodeName is missing")
	case o.Runtime == nil || o.Images == nil:
		return errors.New("kubelet: Runtime and Images are missing")
	case o.Config != nil && o.Config.StaticPodPath+o.Config.StaticPodURL != "" &&
		(o.StaticPods.Rules.Default == nil || o.StaticPods.Rules.Validate == nil):
		return errors.New("kubelet: Rules are missing, which static Pods need")
	case o.Dependencies.Cgroups == nil || o.Dependencies.Mounts == nil:
		return errors.New("kubelet: Ports.Cgroups and Ports.Mounts are missing")
	}
	if o.Config == nil {
		o.Config = &kubeletconfig.KubeletConfiguration{}
	}
	if o.RootDir == "" {
		o.RootDir = "/var/lib/kubelet"
	}
	if o.LogDir == "" {
		o.LogDir = o.Config.PodLogsDir
	}
	if o.LogDir == "" {
		o.LogDir = "/var/log/pods"
	}
	if o.Housekeeping == 0 {
		o.Housekeeping = 2 * time.Second
	}
	if o.PodStatus.RuntimeName == "" {
		o.PodStatus.RuntimeName = "containerd"
	}
	if o.Dependencies.NodeStatusChanged == nil {
		o.Dependencies.NodeStatusChanged = func() {}
	}
	if o.Journal == nil {
		o.Journal = journal.Discard{}
	}
	if o.Dependencies.ProbeRuntime == nil {
		o.Dependencies.ProbeRuntime = o.Runtime
	}
	return nil
}

// backOffLimits are the back-off times of the configuration.
func (o *Options) backOffLimits() podplan.Limits {
	var l podplan.Limits
	if p := o.Config.CrashLoopBackOff.MaxContainerRestartPeriod; p != nil {
		l.MaxCrashDelay = p.Duration
	}
	return l
}

// parallelPulls is how many images are pulled side by side; one unless the configuration says
// otherwise, as upstream.
func (o *Options) parallelPulls() int {
	if s := o.Config.SerializeImagePulls; s == nil || *s {
		return 1
	}
	if n := o.Config.MaxParallelImagePulls; n != nil {
		return int(*n)
	}
	return 0
}

// userNamespaceConfig are the ids that Pods with users of their own get.
func (o *Options) userNamespaceConfig() userns.Config {
	w := userns.Config{MaxPods: o.Config.MaxPods}
	if w.MaxPods == 0 {
		w.MaxPods = 110
	}
	if u := o.Config.UserNamespaces; u != nil {
		w.IDsPerPod = u.IDsPerPod
	}
	return w
}

func (o *Options) resolvConf() string {
	if p := o.Config.ResolverConfig; p != nil {
		return *p
	}
	return "/etc/resolv.conf"
}

// hookClient asks lifecycle hooks: any certificate is accepted, as upstream does, because Pods have
// none that the node could know.
func hookClient(d dial.Func) *http.Client {
	return &http.Client{Transport: hookTransport(d), Timeout: time.Minute}
}
