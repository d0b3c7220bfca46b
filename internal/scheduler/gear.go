package scheduler

import (
	"context"

	"k8s.io/client-go/tools/events"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/bind/devices"
	"github.com/gantry-project/gantry/internal/scheduler/glue"
)

// gear follows devices: claims, classes, slices.
type gear struct {
	manager *devices.Manager // nil: the API server serves none
	cancel  context.CancelFunc
}

func (g *gear) open(o Options, recorder func(profile string) events.EventRecorderLogger) (glue.Shared, error) {
	ctx, cancel := context.WithCancel(context.Background())
	shared := glue.Shared{CSI: devices.NewCSI(o.Informers)}
	m, err := devices.New(ctx, o.Client, o.Informers)
	if err != nil || m == nil {
		cancel()
		return shared, err
	}
	m.Recorder, m.Post = recorder, o.Post
	g.manager, g.cancel = m, cancel
	shared.Devices = m
	return shared, nil
}

func (g *gear) stop() {
	if g.manager != nil {
		g.manager.Stop()
		g.cancel()
	}
}

// watchDevices registers for what becomes of devices. Slices come through the manager, which lays taint rules over them first.
func (s *Scheduler) watchDevices() error {
	m := s.gear.manager
	if m == nil {
		return nil
	}
	s.synced = append(s.synced, m.HasSynced, m.OnSlices(calls(s.otherChanged(framework.ResourceSlice))), m.OnClaims(s.otherChanged(framework.ResourceClaim)))
	return s.observe(s.Informers.Resource().V1().DeviceClasses().Informer(), s.otherChanged(framework.DeviceClass))
}
