package volumes

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-scheduler/framework"

	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/storage"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/volumebinding"
)

// handle is a framework.Handle that knows volumes.
type handle struct {
	framework.Handle
	ledger *Ledger
}

var (
	_ storage.Source            = handle{}
	_ plugins.VolumeHandsHolder = handle{}
)

// StorageFacts is the ledger.
func (h handle) StorageFacts() storage.Facts { return h.ledger }

// VolumeHands is the ledger.
func (h handle) VolumeHands() volumebinding.Hands { return h.ledger }

// Shared makes plugins on one ledger, however many profiles have them: what one assumes the others must see.
type Shared struct {
	mu     sync.Mutex
	ledger *Ledger
}

// Factory lets a factory's plugins see and use the ledger.
func (s *Shared) Factory(make plugins.Factory) plugins.Factory {
	return func(ctx context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error) {
		l, err := s.of(h)
		if err != nil {
			return nil, err
		}
		return make(ctx, args, handle{h, l})
	}
}

func (s *Shared) of(h framework.Handle) (*Ledger, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ledger != nil {
		return s.ledger, nil
	}
	l, err := New(h)
	if err != nil {
		return nil, err
	}
	s.ledger = l
	return l, nil
}
