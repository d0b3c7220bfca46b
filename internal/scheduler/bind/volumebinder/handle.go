package volumebinder

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumebinding"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumelisters"
)

// handle is a framework.Handle with a VolumeBinder.
type handle struct {
	framework.Handle
	binder *VolumeBinder
}

var (
	_ volumelisters.ListersHolder = handle{}
	_ plugins.VolumeBinderHolder  = handle{}
)

// VolumeListers is the VolumeBinder, for plugins that read.
func (h handle) VolumeListers() volumelisters.Listers { return h.binder }

// VolumeBinder is the VolumeBinder, for plugins that write.
func (h handle) VolumeBinder() volumebinding.Binder { return h.binder }

// SharedBinder makes the volume plugins of all profiles with one VolumeBinder: what one assumes the
// others must see.
type SharedBinder struct {
	mu     sync.Mutex
	binder *VolumeBinder
}

// Factory wraps a factory so that its plugins get the VolumeBinder through the Handle.
func (s *SharedBinder) Factory(make plugins.Factory) plugins.Factory {
	return func(ctx context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error) {
		l, err := s.binderFor(h)
		if err != nil {
			return nil, err
		}
		return make(ctx, args, handle{h, l})
	}
}

func (s *SharedBinder) binderFor(h framework.Handle) (*VolumeBinder, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.binder != nil {
		return s.binder, nil
	}
	l, err := New(h)
	if err != nil {
		return nil, err
	}
	s.binder = l
	return l, nil
}
