package scheduler

import (
	"context"

	"k8s.io/client-go/tools/events"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/bind/dramanager"
	"github.com/gantry-project/gantry/internal/scheduler/frameworkruntime"
)

// devices are the objects of dynamic resource allocation: ResourceClaims, DeviceClasses,
// ResourceSlices.
type devices struct {
	manager *dramanager.Manager // nil: the API server serves none
	cancel  context.CancelFunc
}

// start makes what plugins see of devices and of CSI drivers. recorder is that of a profile.
func (g *devices) start(o Options,
	recorder func(profile string) events.EventRecorderLogger) (frameworkruntime.SharedState, error) {
	ctx, cancel := context.WithCancel(context.Background())
	shared := frameworkruntime.SharedState{CSIManager: dramanager.NewCSIManager(o.Informers)}
	m, err := dramanager.New(ctx, o.Client, o.Informers)
	if err != nil || m == nil {
		cancel()
		return shared, err
	}
	m.Recorder, m.Writer = recorder, o.Writer
	g.manager, g.cancel = m, cancel
	shared.DRAManager = m
	return shared, nil
}

func (g *devices) stop() {
	if g.manager != nil {
		g.manager.Stop()
		g.cancel()
	}
}

// watchDevices adds the handlers of devices. Slices come through the manager, which applies taint
// rules to them first.
func (s *eventHandlers) watchDevices() error {
	m := s.devices.manager
	if m == nil {
		return nil
	}
	s.synced = append(s.synced, m.HasSynced,
		m.AddSliceHandler(eventHandlerFuncs(s.handlerFor(framework.ResourceSlice))),
		m.AddClaimHandler(s.handlerFor(framework.ResourceClaim)))
	return s.add(s.informers.Resource().V1().DeviceClasses().Informer(),
		s.handlerFor(framework.DeviceClass))
}
