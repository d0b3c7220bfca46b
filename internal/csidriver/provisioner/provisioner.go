package provisioner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"sync"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// Options say for which driver, and for which node.
type Options struct {
	Client      kubernetes.Interface
	Driver      string // its name, which StorageClasses call provisioner
	Endpoint    string // its socket
	NodeName    string
	TopologyKey string // of the node, in volumes' node affinity
	Health      bool   // claims' status says what the driver reports of their volumes' health (gate CSIVolumeHealth)
}

// callTimeout is how long the driver may take for one call.
const callTimeout = 2 * time.Minute

// parameterPrefix is of StorageClass parameters that are not the driver's.
const parameterPrefix = "csi.storage.k8s.io/"

// driversOwn tells whether the driver is told of a parameter.
func driversOwn(key string) bool { return !strings.HasPrefix(key, parameterPrefix) }

// Provisioner makes volumes.
type Provisioner struct {
	o             Options
	driver        csipb.ControllerClient
	report        *capacities
	events        record.EventRecorder
	pendingClaims pendingClaims
}

var (
	_ controller.Provisioner      = (*Provisioner)(nil)
	_ controller.BlockProvisioner = (*Provisioner)(nil)
	_ controller.Qualifier        = (*Provisioner)(nil)
	_ controller.DeletionGuard    = (*Provisioner)(nil)
)

// Run provisions until ctx ends.
func Run(ctx context.Context, o Options) error {
	conn, err := grpc.NewClient("passthrough:///"+o.Driver, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", o.Endpoint)
		}))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := createAll(ctx, o); err != nil {
		return nil // ctx has ended
	}
	driver := csipb.NewControllerClient(conn)
	events := record.NewBroadcaster(record.WithContext(ctx))
	defer events.Shutdown()
	events.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: o.Client.CoreV1().Events("")})
	p := &Provisioner{o: o, driver: driver, report: newCapacities(o, driver),
		events: events.NewRecorder(scheme.Scheme, v1.EventSource{Component: o.Driver, Host: o.NodeName})}
	c := controller.NewProvisionController(ctx, o.Client, o.Driver, p, controller.LeaderElection(false),
		controller.FailedProvisionThreshold(0), controller.FailedDeleteThreshold(0), controller.AddFinalizer(true),
		controller.RateLimiter(workqueue.NewTypedItemExponentialFailureRateLimiter[string](200*time.Millisecond,
			time.Minute)), controller.CreateProvisionedPVInterval(time.Second), controller.ResyncPeriod(resyncPeriod))
	var others sync.WaitGroup
	others.Go(func() { newResizer(p).run(ctx) })
	others.Go(func() { p.report.run(ctx) })
	others.Go(func() { p.labelSnapshots(ctx) })
	if o.Health {
		others.Go(func() { newHealthMonitor(p).run(ctx) })
	}
	c.Run(ctx)
	others.Wait()
	return nil
}

// SupportsBlock is true.
func (p *Provisioner) SupportsBlock(context.Context) bool { return true }

// ShouldDelete tells whether the volume is on this node.
func (p *Provisioner) ShouldDelete(_ context.Context, v *v1.PersistentVolume) bool {
	if v.Spec.CSI == nil || v.Spec.CSI.Driver != p.o.Driver {
		return false
	}
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return true
	}
	for _, term := range v.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, e := range term.MatchExpressions {
			if e.Key == p.o.TopologyKey && len(e.Values) == 1 {
				return e.Values[0] == p.o.NodeName
			}
		}
	}
	return true
}

// Provision makes the volume of a claim and is its PersistentVolume.
func (p *Provisioner) Provision(ctx context.Context,
	o controller.ProvisionOptions) (*v1.PersistentVolume, controller.ProvisioningState, error) {
	r, err := p.createRequest(ctx, o)
	if err != nil {
		return nil, controller.ProvisioningNoChange, err
	}
	if r.GetVolumeContentSource() == nil { // a copy takes as long as it takes
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTimeout)
		defer cancel()
	}
	got, err := p.driver.CreateVolume(ctx, r)
	if err != nil {
		return nil, stateOf(err, waitsForPod(o.StorageClass)), err
	}
	p.report.changed()
	return p.persistentVolume(o, r, got.GetVolume()), controller.ProvisioningFinished, nil
}

// stateOf is what an error of CreateVolume says of the volume. The Pod of a movable one may be
// placed elsewhere.
func stateOf(err error, movable bool) controller.ProvisioningState {
	switch status.Code(err) {
	case codes.ResourceExhausted, codes.NotFound: // full, or what is copied is on another node
		if movable {
			return controller.ProvisioningReschedule
		}
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Aborted:
		return controller.ProvisioningInBackground
	}
	return controller.ProvisioningFinished
}

// createRequest is what the driver is told of a claim.
func (p *Provisioner) createRequest(ctx context.Context,
	o controller.ProvisionOptions) (*csipb.CreateVolumeRequest, error) {
	size := o.PVC.Spec.Resources.Requests[v1.ResourceStorage]
	r := &csipb.CreateVolumeRequest{Name: o.PVName, Parameters: map[string]string{},
		CapacityRange: &csipb.CapacityRange{RequiredBytes: size.Value()}}
	if limit, ok := o.PVC.Spec.Resources.Limits[v1.ResourceStorage]; ok {
		r.CapacityRange.LimitBytes = limit.Value()
	}
	fs := ""
	for key, value := range o.StorageClass.Parameters {
		switch {
		case key == parameterPrefix+"fstype":
			fs = value
		case driversOwn(key):
			r.Parameters[key] = value
		default:
			return nil, fmt.Errorf("parameter %s of StorageClass %s is not served", key, o.StorageClass.Name)
		}
	}
	for _, mode := range o.PVC.Spec.AccessModes {
		m, ok := accessModes[mode]
		if !ok {
			return nil, fmt.Errorf("access mode %s is not served: volumes of %s are of one node", mode, p.o.Driver)
		}
		r.VolumeCapabilities = append(r.VolumeCapabilities, capability(o, m, fs))
	}
	here := &csipb.Topology{Segments: map[string]string{p.o.TopologyKey: p.o.NodeName}}
	r.AccessibilityRequirements = &csipb.TopologyRequirement{Requisite: []*csipb.Topology{here},
		Preferred: []*csipb.Topology{here}}
	return r, p.addSource(ctx, o.PVC, r)
}

var accessModes = map[v1.PersistentVolumeAccessMode]csipb.VolumeCapability_AccessMode_Mode{
	v1.ReadWriteOnce:    csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER,
	v1.ReadWriteOncePod: csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER,
}

func capability(o controller.ProvisionOptions, m csipb.VolumeCapability_AccessMode_Mode,
	fs string) *csipb.VolumeCapability {
	c := &csipb.VolumeCapability{AccessMode: &csipb.VolumeCapability_AccessMode{Mode: m}}
	if block(o.PVC) {
		c.AccessType = &csipb.VolumeCapability_Block{Block: &csipb.VolumeCapability_BlockVolume{}}
	} else {
		c.AccessType = &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{FsType: fs,
			MountFlags: o.StorageClass.MountOptions}}
	}
	return c
}

func block(c *v1.PersistentVolumeClaim) bool {
	return c.Spec.VolumeMode != nil && *c.Spec.VolumeMode == v1.PersistentVolumeBlock
}

// addSource has the volume made from another claim's, or from a snapshot, if need be of another
// namespace that allows it.
func (p *Provisioner) addSource(ctx context.Context, c *v1.PersistentVolumeClaim, r *csipb.CreateVolumeRequest) error {
	s, namespace := c.Spec.DataSource, c.Namespace
	if ref := c.Spec.DataSourceRef; s == nil && ref != nil { // in another namespace
		s, namespace = &v1.TypedLocalObjectReference{APIGroup: ref.APIGroup, Kind: ref.Kind, Name: ref.Name},
			ptr.Deref(ref.Namespace, c.Namespace)
	}
	if s == nil {
		return nil
	}
	group := ptr.Deref(s.APIGroup, "")
	snapshot := s.Kind == "VolumeSnapshot" && group == snapshotGroup
	if !snapshot && (s.Kind != "PersistentVolumeClaim" || group != "") {
		return &controller.IgnoredError{
			Reason: fmt.Sprintf("data source %s %s is served by populators only", s.Kind, s.Name)}
	}
	if namespace != c.Namespace {
		if err := p.checkGrant(ctx, c); err != nil {
			return err
		}
	}
	if snapshot {
		return p.addSnapshot(ctx, c, types.NamespacedName{Namespace: namespace, Name: s.Name}, r)
	}
	from, err := p.o.Client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, s.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if from.Spec.VolumeName == "" {
		return fmt.Errorf("claim %s/%s, which is to be cloned, is not bound", from.Namespace, from.Name)
	}
	v, err := p.o.Client.CoreV1().PersistentVolumes().Get(ctx, from.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if v.Spec.CSI == nil || v.Spec.CSI.Driver != p.o.Driver {
		return fmt.Errorf("claim %s/%s, which is to be cloned, is of another driver", from.Namespace, from.Name)
	}
	r.VolumeContentSource = &csipb.VolumeContentSource{Type: &csipb.VolumeContentSource_Volume{
		Volume: &csipb.VolumeContentSource_VolumeSource{VolumeId: v.Spec.CSI.VolumeHandle}}}
	return nil
}

func (p *Provisioner) persistentVolume(o controller.ProvisionOptions, r *csipb.CreateVolumeRequest,
	got *csipb.Volume) *v1.PersistentVolume {
	size := got.GetCapacityBytes()
	if size == 0 {
		size = r.GetCapacityRange().GetRequiredBytes()
	}
	fs := "ext4"
	if given := r.GetVolumeCapabilities()[0].GetMount().GetFsType(); given != "" {
		fs = given
	}
	source := &v1.CSIPersistentVolumeSource{Driver: p.o.Driver, VolumeHandle: got.GetVolumeId(),
		VolumeAttributes: maps.Clone(got.GetVolumeContext())}
	if !block(o.PVC) {
		source.FSType = fs
	}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: o.PVName}, Spec: v1.PersistentVolumeSpec{
		AccessModes: o.PVC.Spec.AccessModes, MountOptions: o.StorageClass.MountOptions,
		VolumeMode:             o.PVC.Spec.VolumeMode,
		Capacity:               v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(size, resource.BinarySI)},
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: source}}}
	if o.StorageClass.ReclaimPolicy != nil {
		pv.Spec.PersistentVolumeReclaimPolicy = *o.StorageClass.ReclaimPolicy
	}
	var terms []v1.NodeSelectorTerm
	for _, t := range got.GetAccessibleTopology() {
		var term v1.NodeSelectorTerm
		for key, value := range t.GetSegments() {
			term.MatchExpressions = append(term.MatchExpressions,
				v1.NodeSelectorRequirement{Key: key, Operator: v1.NodeSelectorOpIn, Values: []string{value}})
		}
		terms = append(terms, term)
	}
	if len(terms) > 0 {
		pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: terms}}
	}
	return pv
}

// Delete removes the volume behind a PersistentVolume.
func (p *Provisioner) Delete(ctx context.Context, v *v1.PersistentVolume) error {
	if v.Spec.CSI == nil {
		return errors.New("invalid CSI PV")
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := p.driver.DeleteVolume(ctx, &csipb.DeleteVolumeRequest{VolumeId: v.Spec.CSI.VolumeHandle})
	p.report.changed()
	return err
}
