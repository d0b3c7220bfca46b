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

// portsKey is where the node ports lie that are held, upstream's key.
const portsKey = store.Prefix + "/ranges/servicenodeports"

// nodePorts keeps the held node ports in the store, where all API servers see them, as a RangeAllocation.
type nodePorts struct {
	mu        sync.Mutex // one change at a time; others are guarded by the revision
	client    *clientv3.Client
	codec     *protobuf.Serializer
	decoder   runtime.Decoder
	allocator *services.Allocator
	list      func(context.Context) ([]corev1.Service, error)
}

// keepNodePorts lets the allocator write node ports into the store.
func (b *builder) keepNodePorts() error {
	client, err := b.server.store.Client()
	if err != nil {
		return err
	}
	b.ports = &nodePorts{
		client: client, codec: protobuf.NewSerializer(b.scheme.Scheme, b.scheme.Scheme), decoder: b.scheme.Codecs.UniversalDeserializer(),
		allocator: b.allocator, list: storedServices(b.find),
	}
	b.allocator.KeepPorts(b.ports)
	return nil
}

// Take implements services.Ports.
func (p *nodePorts) Take(ctx context.Context, ports []int) error {
	return p.change(ctx, func(m *services.PortMap) error {
		for _, n := range ports {
			if !m.Set(n, true) {
				return services.PortTaken(n)
			}
		}
		return nil
	})
}

// Give implements services.Ports.
func (p *nodePorts) Give(ctx context.Context, ports []int) error {
	return p.change(ctx, func(m *services.PortMap) error {
		for _, n := range ports {
			m.Set(n, false)
		}
		return nil
	})
}

// change makes a change of what is stored, on what it is at that moment.
func (p *nodePorts) change(ctx context.Context, f func(*services.PortMap) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		m, revision, err := p.read(ctx)
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
		res, err := p.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(portsKey), "=", revision)).Then(clientv3.OpPut(portsKey, string(value))).Commit()
		if err != nil {
			return fmt.Errorf("write %s: %w", portsKey, err)
		}
		if res.Succeeded {
			return nil
		}
	}
}

// read is what is stored, and at which revision (0: nothing is). Without a map of this range the stored Services tell what is held.
func (p *nodePorts) read(ctx context.Context) (*services.PortMap, int64, error) {
	res, err := p.client.Get(ctx, portsKey)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", portsKey, err)
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
