// Package portallocator keeps the node ports that Services hold as a RangeAllocation in the store
// (upstream: pkg/registry/core/service/portallocator).
//
// In: a client of etcd, the allocator's form of the map. Out: a services.NodePortStorage. Which
// port a Service gets is the allocator's choice, in registry/services.
package portallocator

import (
	"context"
	"errors"
	"fmt"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/gantry-project/gantry/internal/apiserver/registry/services"
	"github.com/gantry-project/gantry/internal/apiserver/store"
)

// RangeKey is the key under which the node ports lie that are held, upstream's key.
const RangeKey = store.Prefix + "/ranges/servicenodeports"

// Options are what a Storage is made from.
type Options struct {
	Client    *clientv3.Client // Close closes it
	Scheme    *runtime.Scheme
	Decoder   runtime.Decoder
	Allocator *services.Allocator
	// List returns all stored Services; they tell what is held when no map is stored.
	List func(context.Context) ([]corev1.Service, error)
}

// Storage keeps the node ports that are held in the store, where all API servers see them, as a
// RangeAllocation. It implements services.NodePortStorage; safe for concurrent use.
type Storage struct {
	mu    sync.Mutex // one change at a time; others are guarded by the revision
	codec *protobuf.Serializer
	Options
}

// NewStorage returns a Storage; nothing is read or written before the first call.
func NewStorage(o Options) *Storage {
	return &Storage{codec: protobuf.NewSerializer(o.Scheme, o.Scheme), Options: o}
}

// Close ends the connection to the store.
func (p *Storage) Close() { _ = p.Client.Close() }

// List returns all Services as they are stored at this moment.
func (p *Storage) List(ctx context.Context) ([]corev1.Service, error) { return p.Options.List(ctx) }

// Allocate implements services.NodePortStorage.
func (p *Storage) Allocate(ctx context.Context, ports []int) error {
	return p.Update(ctx, func(m *services.PortMap) error {
		for _, n := range ports {
			if !m.Set(n, true) {
				return services.PortAllocatedError(n)
			}
		}
		return nil
	})
}

// Release implements services.NodePortStorage.
func (p *Storage) Release(ctx context.Context, ports []int) error {
	return p.Update(ctx, func(m *services.PortMap) error {
		for _, n := range ports {
			m.Set(n, false)
		}
		return nil
	})
}

// Update applies f to the map as it is stored at that moment. It is called again when another
// server wrote meanwhile; its error ends the update.
func (p *Storage) Update(ctx context.Context, f func(*services.PortMap) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		m, revision, err := p.Load(ctx)
		if err != nil {
			return err
		}
		if err := f(m); err != nil {
			return err
		}
		value, err := runtime.Encode(p.codec, m.Stored())
		if err != nil {
			return err
		}
		res, err := p.Client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(RangeKey), "=", revision)).Then(
			clientv3.OpPut(RangeKey, string(value))).Commit()
		if err != nil {
			return fmt.Errorf("write %s: %w", RangeKey, err)
		}
		if res.Succeeded {
			return nil
		}
	}
}

// Load returns what is stored, and at which revision (0: nothing is). Without a map of this range
// the stored Services tell what is held.
func (p *Storage) Load(ctx context.Context) (*services.PortMap, int64, error) {
	res, err := p.Client.Get(ctx, RangeKey)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", RangeKey, err)
	}
	revision := int64(0)
	if len(res.Kvs) > 0 {
		revision = res.Kvs[0].ModRevision
		obj, err := runtime.Decode(p.Decoder, res.Kvs[0].Value)
		if r, ok := obj.(*corev1.RangeAllocation); ok && err == nil {
			if m := p.Allocator.ReadPortMap(r); m != nil {
				return m, revision, nil
			}
		}
	}
	all, err := p.List(ctx)
	if err != nil {
		return nil, 0, errors.Join(errors.New("learn which node ports are held"), err)
	}
	return p.Allocator.NewPortMap(all), revision, nil
}
