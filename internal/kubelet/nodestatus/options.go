package nodestatus

import (
	"context"
	"runtime"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	internalapi "k8s.io/cri-api/pkg/apis"

	"github.com/gantry-project/gantry/internal/journal"
)

// Machine is what the kernel and the system say of this machine; it does not change while the
// kubelet runs.
type Machine struct {
	CPUs           int64            // logical processors online
	MemoryBytes    uint64           // MemTotal
	SwapBytes      uint64           // SwapTotal
	HugePages      map[string]int64 // bytes reserved per page size, key "2Mi", "1Gi"
	EphemeralBytes uint64           // size of the file system the kubelet's directory is on
	MachineID      string
	SystemUUID     string
	BootID         string
	KernelVersion  string
	OSImage        string // PRETTY_NAME of os-release
	// whether the kubelet runs in a user namespace; nil with the gate KubeletInUserNamespace off
	RunningInUserNamespace *bool
	Architecture           string // GOARCH; empty takes this program's
}

// Identity is how the node names itself.
type Identity struct {
	Name          string            // Node object's name; required
	Hostname      string            // label kubernetes.io/hostname and the Hostname address; empty takes Name
	Addresses     []v1.NodeAddress  // InternalIP first, without Hostname; may be refreshed by Sources.Addresses
	Labels        map[string]string // of --node-labels
	Taints        []v1.Taint        // of --register-with-taints, put on at the first registration only
	Unschedulable bool              // of --register-schedulable=false, at the first registration only
	ProviderID    string
	PodCIDRs      []string // put on at the first registration when nobody else allocates them
	// of --cloud-provider=external: somebody else gives addresses and takes the taint off that the
	// first registration puts on
	External bool
}

// Pressure is what the node is short of.
type Pressure struct{ Memory, Disk, PID bool }

// Sources are where the Reporter reads the changing part of the status. Every function may be nil.
type Sources struct {
	Runtime      internalapi.RuntimeService      // required
	Images       internalapi.ImageManagerService // nil: no list of images
	Allocatable  func(capacity v1.ResourceList) v1.ResourceList
	Extended     func() (capacity, allocatable v1.ResourceList) // resources of device plugins
	Pressure     func() Pressure
	Healthy      func() error // other reasons not to be Ready: the main loop hangs, container manager failed
	Addresses    func(ctx context.Context) ([]v1.NodeAddress, error)
	VolumesInUse func() (names []v1.UniqueVolumeName, known bool)

	// Signs that make it worth while to ask the runtime before the next audit; a nil channel gives
	// none.
	RuntimeSuspect <-chan struct{} // the runtime may not be as it was
	ImagesChanged  <-chan struct{} // an image came or went
}

// Timing are the periods of KubeletConfiguration; zero takes upstream's default.
type Timing struct {
	StatusEvery   time.Duration // nodeStatusUpdateFrequency, 10 s: how often changes are looked for
	ReportEvery   time.Duration // nodeStatusReportFrequency, 5 min: how often an unchanged status is posted
	LeaseDuration time.Duration // nodeLeaseDurationSeconds, 40 s; renewed at a quarter of it
	// 1 min: the audit; how often a runtime that is well and gives no sign is asked whether it and
	// its network are ready, and for its images
	RuntimeEvery  time.Duration
	NotReadyEvery time.Duration // 5 s: the same while it does not answer or says that it is not ready
	StartEvery    time.Duration // 100 ms: the same until the node is Ready for the first time
}

// Options are the parts of a Reporter.
type Options struct {
	Client   kubernetes.Interface // required
	Identity Identity
	Register bool // --register-node
	Machine  Machine
	Sources  Sources
	Timing   Timing

	MaxPods        int64                // 110
	KubeletPort    int32                // 10250
	KubeletVersion string               // v1.37.2
	MaxImages      int                  // nodeStatusMaxImages, 50; negative lists all
	Events         record.EventRecorder // nil tells nobody
	Journal        journal.Sink         // nil writes nothing

	// Started is called once a node that this kubelet registered is Ready: when it was first tried,
	// when it was done, and now.
	Started func(attempt, registered, ready time.Time)
}

func withDefaults(o Options) Options {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&o.Timing.StatusEvery, 10*time.Second)
	set(&o.Timing.ReportEvery, 5*time.Minute)
	set(&o.Timing.LeaseDuration, 40*time.Second)
	set(&o.Timing.RuntimeEvery, time.Minute)
	set(&o.Timing.NotReadyEvery, 5*time.Second)
	set(&o.Timing.StartEvery, 100*time.Millisecond)
	if o.MaxPods == 0 {
		o.MaxPods = 110
	}
	if o.KubeletPort == 0 {
		o.KubeletPort = 10250
	}
	if o.KubeletVersion == "" {
		o.KubeletVersion = "v1.37.2"
	}
	if o.MaxImages == 0 {
		o.MaxImages = 50
	}
	if o.Journal == nil {
		o.Journal = journal.Discard{}
	}
	if o.Events == nil {
		o.Events = &record.FakeRecorder{}
	}
	if o.Identity.Hostname == "" {
		o.Identity.Hostname = o.Identity.Name
	}
	if o.Machine.Architecture == "" {
		o.Machine.Architecture = runtime.GOARCH
	}
	return o
}
