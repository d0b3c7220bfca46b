package apiserver

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

// nodePortRangeKey is where the node ports lie that are held, upstream's key.
const nodePortRangeKey = store.Prefix + "/ranges/servicenodeports"

// nodePortStorage keeps the held node ports in the store, where all API servers see them, as a
// RangeAllocation.
type nodePortStorage struct {
	mu        sync.Mutex // one change at a time; others are guarded by the revision
	client    *clientv3.Client
	codec     *protobuf.Serializer
	decoder   runtime.Decoder
	allocator *services.Allocator
	list      func(context.Context) ([]corev1.Service, error)
}

// persistNodePorts lets the allocator write node ports into the store.
func (b *builder) persistNodePorts() error {
	client, err := b.server.store.Client()
	if err != nil {
		return err
	}
	b.nodePortStorage = &nodePortStorage{
		client: client, codec: protobuf.NewSerializer(b.scheme.Scheme, b.scheme.Scheme),
		decoder:   b.scheme.Codecs.UniversalDeserializer(),
		allocator: b.allocator, list: listServices(b.lookupStorage),
	}
	b.allocator.UseNodePortStorage(b.nodePortStorage)
	return nil
}

// Allocate implements services.NodePortStorage.
func (p *nodePortStorage) Allocate(ctx context.Context, ports []int) error {
	return p.update(ctx, func(m *services.PortMap) error {
		for _, n := range ports {
			if !m.Set(n, true) {
				return services.PortAllocatedError(n)
			}
		}
		return nil
	})
}

// Release implements services.NodePortStorage.
func (p *nodePortStorage) Release(ctx context.Context, ports []int) error {
	return p.update(ctx, func(m *services.PortMap) error {
		for _, n := range ports {
			m.Set(n, false)
		}
		return nil
	})
}

// update makes a change of what is stored, on what it is at that moment.
func (p *nodePortStorage) update(ctx context.Context, f func(*services.PortMap) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		m, revision, err := p.load(ctx)
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
		res, err := p.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(nodePortRangeKey), "=", revision)).Then(
			clientv3.OpPut(nodePortRangeKey, string(value))).Commit()
		if err != nil {
			return fmt.Errorf("write %s: %w", nodePortRangeKey, err)
		}
		if res.Succeeded {
			return nil
		}
	}
}

// load is what is stored, and at which revision (0: nothing is). Without a map of this range the
// stored Services tell what is held.
func (p *nodePortStorage) load(ctx context.Context) (*services.PortMap, int64, error) {
	res, err := p.client.Get(ctx, nodePortRangeKey)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", nodePortRangeKey, err)
	}
	revision := int64(0)
	if len(res.Kvs) > 0 {
		revision = res.Kvs[0].ModRevision
		obj, err := runtime.Decode(p.decoder, res.Kvs[0].Value)
		if r, ok := obj.(*corev1.RangeAllocation); ok && err == nil {
			if m := p.allocator.ReadPortMap(r); m != nil {
				return m, revision, nil
			}
		}
	}
	all, err := p.list(ctx)
	if err != nil {
		return nil, 0, errors.Join(errors.New("learn which node ports are held"), err)
	}
	return p.allocator.NewPortMap(all), revision, nil
}
