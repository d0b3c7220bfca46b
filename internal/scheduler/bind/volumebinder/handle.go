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

// handle is a framework.Handle that knows volumes.
type handle struct {
	framework.Handle
	binder *VolumeBinder
}

var (
	_ volumelisters.ListersHolder = handle{}
	_ plugins.VolumeBinderHolder  = handle{}
)

// VolumeListers is the ledger.
func (h handle) VolumeListers() volumelisters.Listers { return h.binder }

// VolumeBinder is the ledger.
func (h handle) VolumeBinder() volumebinding.Binder { return h.binder }

// SharedBinder makes plugins on one ledger, however many profiles have them: what one assumes the
// others must see.
type SharedBinder struct {
	mu     sync.Mutex
	binder *VolumeBinder
}

// Factory lets a factory's plugins see and use the ledger.
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
