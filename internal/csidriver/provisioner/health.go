package provisioner

import (
	"context"
	"fmt"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
	"github.com/gantry-project/gantry/internal/kubelet/volume/csi"
)

// healthPeriod is how often the driver is asked about its volumes.
const healthPeriod = time.Minute

// reasonNotFound is the reason of a volume that the driver does not have.
const reasonNotFound = "VolumeNotFound"

// healthMonitor writes what the driver's controller reports of volumes into their claims' status,
// as the external-health-monitor does.
type healthMonitor struct {
	*Provisioner
	// by PersistentVolume: what its claim's status says; one that is new is not there
	written map[types.UID][]v1.VolumeHealthCondition
}

func newHealthMonitor(p *Provisioner) *healthMonitor {
	return &healthMonitor{p, map[types.UID][]v1.VolumeHealthCondition{}}
}

func (m *healthMonitor) run(ctx context.Context) {
	tick := time.NewTicker(healthPeriod)
	defer tick.Stop()
	for {
		if err := m.round(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "The health of volumes could not be reported, trying again", "driver",
				m.o.Driver)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// round asks about all volumes of this node once. A volume whose question fails is left as it is.
func (m *healthMonitor) round(ctx context.Context) error {
	volumes, err := m.o.Client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	there := map[types.UID]bool{}
	for i := range volumes.Items {
		v := &volumes.Items[i]
		if v.Status.Phase != v1.VolumeBound || v.Spec.ClaimRef == nil || !m.ShouldDelete(ctx, v) {
			continue
		}
		there[v.UID] = true
		conditions, err := m.ask(ctx, v.Spec.CSI.VolumeHandle)
		if err == nil {
			err = m.report(ctx, v, conditions)
		}
		if err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Info("The health of a volume is left as it was", "volume", v.Name, "err", err)
		}
	}
	for uid := range m.written {
		if !there[uid] {
			delete(m.written, uid)
		}
	}
	return nil
}

// ask is what the driver says of a volume; nothing is one that is well.
func (m *healthMonitor) ask(ctx context.Context, handle string) ([]v1.VolumeHealthCondition, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := m.driver.ControllerGetVolumeHealth(ctx, &csipb.ControllerGetVolumeHealthRequest{VolumeId: handle})
	if status.Code(err) == codes.NotFound {
		return []v1.VolumeHealthCondition{{Status: v1.VolumeHealthInaccessible, Reason: reasonNotFound,
			Message: fmt.Sprintf("%s does not have the volume %s", m.o.Driver, handle)}}, nil
	}
	if err != nil {
		return nil, err
	}
	return csi.VolumeConditions("ControllerGetVolumeHealth", got.GetVolumeHealth().GetHealthStatuses())
}

// report writes the conditions into the status of the volume's claim, unless it says so already.
func (m *healthMonitor) report(ctx context.Context, v *v1.PersistentVolume,
	conditions []v1.VolumeHealthCondition) error {
	if was, looked := m.written[v.UID]; looked && podstatus.SameHealth(was, conditions) {
		return nil
	}
	claims := m.o.Client.CoreV1().PersistentVolumeClaims(v.Spec.ClaimRef.Namespace)
	c, err := claims.Get(ctx, v.Spec.ClaimRef.Name, metav1.GetOptions{})
	if err != nil || c.UID != v.Spec.ClaimRef.UID {
		return controllerruntime.IgnoreNotFound(err)
	}
	if next := withHealth(c, conditions, metav1.Now()); next != nil {
		if _, err := claims.UpdateStatus(ctx, next, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	m.written[v.UID] = conditions
	return nil
}

// withHealth is the claim with the conditions of its volume; nil when it says the same already. A
// volume that was always well gets no entry, one that recovers keeps one without conditions. Other
// messages alone make nothing new.
func withHealth(c *v1.PersistentVolumeClaim, conditions []v1.VolumeHealthCondition,
	now metav1.Time) *v1.PersistentVolumeClaim {
	var was []v1.VolumeHealthCondition
	if h := c.Status.HealthStatus; h != nil {
		was = h.HealthConditions
	}
	if podstatus.SameHealth(was, conditions) {
		return nil
	}
	c = c.DeepCopy()
	c.Status.HealthStatus = &v1.VolumeHealthStatus{HealthConditions: conditions, LastTransitionTime: now}
	return c
}
