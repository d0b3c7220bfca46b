package apiserver

import (
	"context"
	"sync"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/apiserver/orphanedobjects"
	"github.com/gantry-project/gantry/internal/apiserver/registry/flowcontrol"
)

// flowObjectsPeriod is how often the suggested and mandatory FlowSchemas and priority levels are
// checked, in case they were removed or changed: upstream's period.
const flowObjectsPeriod = time.Minute

// addMaintenanceHooks adds hooks that run while the server does: the configured controllers, flow
// control objects, token tracking and the removal of orphaned objects.
func (b *builder) addMaintenanceHooks() error {
	return b.generic.AddPostStartHook("gantry-upkeep", func(ctx genericapiserver.PostStartHookContext) error {
		if err := b.runControllers(ctx); err != nil {
			return err
		}
		go b.ensureFlowObjects(ctx)
		return b.cleanOrphanedObjects(ctx)
	})
}

// addFlowSchemaStatus adds the hook that writes the condition Dangling of FlowSchemas.
func (b *builder) addFlowSchemaStatus() error {
	if b.config.PriorityAndFairness {
		return nil // the library writes it
	}
	status, err := flowcontrol.NewStatusController(b.client.FlowcontrolV1(), b.informers.Flowcontrol().V1())
	if err != nil {
		return err
	}
	return b.generic.AddPostStartHook("gantry-flow-schema-status",
		func(ctx genericapiserver.PostStartHookContext) error {
			go status.Run(ctx)
			return nil
		})
}

// runControllers starts the configured controllers, each in its own goroutine. They share an etcd
// client, which is closed when the last of them returns.
func (b *builder) runControllers(ctx context.Context) error {
	if len(b.config.Controllers) == 0 {
		return nil
	}
	etcd, err := b.server.store.Client()
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for _, c := range b.config.Controllers {
		all.Go(func() {
			c.Run(klog.NewContext(ctx, klog.FromContext(ctx).WithValues("controller", c.Name)), ControllerContext{
				Client: b.client, Config: b.loopback, Etcd: etcd, Migrations: b.migrationSignal})
		})
	}
	go func() {
		all.Wait()
		_ = etcd.Close()
	}()
	return nil
}

// cleanOrphanedObjects deletes objects whose namespace does not exist, once the first namespaces
// exist.
func (b *builder) cleanOrphanedObjects(ctx genericapiserver.PostStartHookContext) error {
	objects, err := metadata.NewForConfig(b.loopback)
	if err != nil {
		return err
	}
	etcd, err := b.server.store.Client()
	if err != nil {
		return err
	}
	gone := make(chan struct{}, 1)
	_, err = b.informers.Core().V1().Namespaces().Informer().AddEventHandler(
		cache.ResourceEventHandlerFuncs{DeleteFunc: func(any) {
			select {
			case gone <- struct{}{}:
			default:
			}
		}})
	if err != nil {
		_ = etcd.Close()
		return err
	}
	go func() {
		defer etcd.Close()
		select {
		case <-b.bootstrapped:
			(&orphanedobjects.Cleaner{Etcd: etcd, Discovery: b.client.Discovery(), Objects: objects, Prefix: KeyPrefix,
				NamespaceDeleted: gone}).Run(ctx)
		case <-ctx.Done():
		}
	}()
	return nil
}

// ensureFlowObjects restores the suggested and mandatory flow control objects every
// flowObjectsPeriod until ctx ends.
func (b *builder) ensureFlowObjects(ctx context.Context) {
	tick := time.NewTicker(flowObjectsPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := flowcontrol.Ensure(ctx, b.client.FlowcontrolV1()); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err,
				"Flow schemas and priority levels could not be looked after; the next try is in a minute")
		}
		if err := b.ensureTokenTracking(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err,
				"The ConfigMap of service account tokens could not be looked after; the next try is in a minute",
				"name", tokenTrackingConfigMap)
		}
	}
}
