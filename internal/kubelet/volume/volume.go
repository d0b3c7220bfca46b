package volume

import (
	"context"
	"io/fs"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Mounted is a volume that is ready for containers.
type Mounted struct {
	Name       string // as in spec.volumes; the volume manager's to fill in, like Type
	Type       string // emptyDir, configMap, …; persistentVolumeClaim for all that is behind claims
	Path       string // on the host; empty for an image volume
	Image      string // reference of an image volume, which the runtime mounts
	PullPolicy v1.PullPolicy
	ReadOnly   bool         // whatever the volumeMount says
	Device     bool         // Path is a block device
	MapPath    string       // the link to it that containers get; empty when it is not mapped
	Size       Size         // how what it takes is measured
	Driver     DriverVolume // of a CSI volume: whom to ask first
	// when SetUp has to be called again though nothing else changed (a token grows old); zero is
	// never
	RefreshAt time.Time
}

// DriverVolume is what a CSI driver knows a volume by.
type DriverVolume struct {
	Name, Handle string // of the driver, and its name of the volume
	Staged       string // where it is staged on the node; empty when it is not
}

// Size is how a volume is measured for /stats/summary and kubelet_volume_stats_*. The zero value
// measures nothing.
type Size int

// Ways to measure, each as upstream's plugin of the type does.
const (
	SizeUnknown Size = iota // hostPath, image
	SizeOfFiles             // the files are added up: emptyDir, configMap, secret, downwardAPI, projected
	SizeOfMount             // the file system that is mounted: local, nfs
	SizeOfBlock             // the device's capacity
)

// Plugin makes one kind of volume for Pods: upstream's VolumePlugin, Mounter and Unmounter in one.
// A kind that is staged on the node before Pods get it is a DeviceMountableVolumePlugin too. Its
// methods are called for one Pod at a time, for different Pods side by side.
type Plugin interface {
	// Name is the field of v1.VolumeSource and of v1.PersistentVolumeSource, like "configMap".
	Name() string
	// Dir is the plugin's part of the path under the Pod's volumes, like "kubernetes.io~configmap",
	// no other plugin's; empty when the type keeps nothing there.
	Dir() string
	// RequiresRemount tells whether the content follows API objects or time, so that SetUp has to
	// be called again when these change.
	RequiresRemount(s Spec) bool
	// SetUp makes the volume ready for one Pod, and brings it up to date when it is there already.
	// It can be repeated after any failure. Errors read as upstream's.
	SetUp(ctx context.Context, a MounterArgs) (Mounted, error)
	// TearDown undoes SetUp, with what was stored of the volume: the Pod and its spec may be gone,
	// and the kubelet started anew. It is a success when there is nothing.
	TearDown(ctx context.Context, a UnmounterArgs) error
}

// MounterArgs is what a Plugin needs to know to set a volume up.
type MounterArgs struct {
	Pod  *v1.Pod
	Spec Spec
	Dir  string // where the volume is to be: <root>/pods/<uid>/volumes/<Dir()>/<name>
	// MetaDir is where the type keeps what it has to know after a restart:
	// <root>/pods/<uid>/plugins/<Dir()>/<name>. It goes with the volume. Empty keeps nothing.
	MetaDir      string
	Data         VolumeData // as stored, with the path the volume is staged at
	MountOptions []string   // of the PersistentVolume, for mount(8); none unless the plugin's row takes them
	FSGroup      *int64     // the Pod's; nil when it has none or the plugin's row does not apply it
	Node         NodeView
	Event        func(why, message string) // tells a Warning event about the Pod; nil is nobody listens
	// Record records an event about the Pod and, unless that is nil, the claim; nil is nobody
	// listens
	Record func(kind, why, message string, c *v1.PersistentVolumeClaim)
	// Attempted is told before a driver is asked to publish the volume, and where; nil is nobody
	// listens
	Attempted func(path string)
	// Began is told of parts that are operations by themselves; Begin calls it
	Began func(operation string) (end func(error))
}

// UnmounterArgs is what a Plugin knows of a volume to tear down.
type UnmounterArgs struct {
	Dir, MetaDir string     // as in MounterArgs
	Data         VolumeData // as stored before SetUp; of a volume of an older Gantry only its names
}

// NodeView is what a Pod may learn about its node, and which bounds volumes have.
type NodeView struct {
	Allocatable v1.ResourceList
	HostIPs     []string // first is status.hostIP
	PodIPs      []string
}

// Mounter is the kernel's part; linux/mount implements it.
type Mounter interface {
	Tmpfs(dir string, size int64, mode fs.FileMode) error // size in bytes, 0 is the kernel's own bound
	Hugetlbfs(dir, pageSize string, mode fs.FileMode) error
	// a file system of a server or device, with the options of mount(8)
	Mount(source, target, kind string, options []string) error
	// FormatAndMount is Mount of a block device that is formatted first if it is blank; a device
	// that has another file system is refused by a MountError of k8s.io/mount-utils
	FormatAndMount(source, target, kind string, options []string) error
	Bind(source, target string, readOnly bool) error
	Unmount(target string) error              // a success when it is not mounted
	IsMountPoint(path string) (bool, error)   // false when there is nothing
	MountPoints(dir string) ([]string, error) // mount points below dir and dir itself, latest first
	// OpenBeneath opens a path below root without following symbolic links out of it; with a mode,
	// missing directories are made. The descriptor is the caller's to close.
	OpenBeneath(root, sub string, mkdir fs.FileMode) (fd int, err error)
}

// Objects reads the objects a Pod refers to from a cache that the API server keeps up to date.
// Errors are API errors whose text is upstream's: configmap "x" not found.
type Objects interface {
	GetConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
	GetSecret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// Bundles reads the authorities of the cluster's ClusterTrustBundles. To read is to be told of
// changes until the Pod is dropped.
type Bundles interface {
	// TrustAnchors are the certificates that a projection chooses, as PEM blocks, each once.
	TrustAnchors(ctx context.Context, uid types.UID, p *v1.ClusterTrustBundleProjection) ([]byte, error)
}

// Certificates gets keys with certificates for Pods (KEP-4317). To ask is to be told of answers
// until the Pod is dropped.
type Certificates interface {
	// Credential is that of one source of the Pod's volumes, by a name that is the source's own. An
	// error names what is waited for.
	Credential(ctx context.Context, pod *v1.Pod, source string, p *v1.PodCertificateProjection) (Credential, error)
}

// Credential is a private key with its certificates, as PEM blocks.
type Credential struct {
	Key, Chain []byte
	RefreshAt  time.Time // when to ask for the next one
}

// Tokens asks the API server for service-account tokens, as the node's identity.
type Tokens interface {
	CreateToken(ctx context.Context, namespace, serviceAccount string,
		r *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)
}

// Claims reads persistent volume claims and what they are bound to.
type Claims interface {
	GetClaim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error)
	GetVolume(ctx context.Context, name string) (*v1.PersistentVolume, error)
}
