package apiserver

import (
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"

	"github.com/gantry-project/gantry/internal/apiserver/registry/services/portallocator"
	"github.com/gantry-project/gantry/internal/apiserver/registry/services/repair"
)

// addServiceRepair adds the hook that repairs IPAddresses, node ports and ServiceCIDRs while the
// server runs.
func (b *builder) addServiceRepair() error {
	informer := b.informers.Networking().V1().ServiceCIDRs().Informer() // before the factory starts
	return b.generic.AddPostStartHook("gantry-service-addresses",
		func(ctx genericapiserver.PostStartHookContext) error {
			changed := make(changeSignal, 1)
			poke := func(any) { changed.Enqueue() }
			_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc: poke, UpdateFunc: func(_, o any) { poke(o) }, DeleteFunc: poke,
			})
			if err != nil {
				return err
			}
			go func() {
				defer b.nodePortStorage.Close()
				(&repair.Repairer{Client: b.client, Allocator: b.allocator, NodePorts: b.nodePortStorage,
					Changed: changed}).Run(ctx)
			}()
			return nil
		})
}

// persistNodePorts makes the allocator store its node ports.
func (b *builder) persistNodePorts() error {
	client, err := b.server.store.Client()
	if err != nil {
		return err
	}
	b.nodePortStorage = portallocator.NewStorage(portallocator.Options{Client: client, Scheme: b.scheme.Scheme,
		Decoder: b.scheme.Codecs.UniversalDeserializer(), Allocator: b.allocator, List: listServices(b.lookupStorage)})
	b.allocator.UseNodePortStorage(b.nodePortStorage)
	return nil
}
