package apiserver

import (
	"context"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/apiserver/bootstraptoken"
	"github.com/gantry-project/gantry/internal/apiserver/orphanedobjects"
	"github.com/gantry-project/gantry/internal/apiserver/registry/flowcontrol"
	"github.com/gantry-project/gantry/internal/apiserver/storageversionmigrator"
)

// flowObjectsPeriod is how often the flow objects every cluster has are looked at, in case somebody
// removed or changed them. Upstream's figure.
const flowObjectsPeriod = time.Minute

// migrationPeriod is how often migrations are looked for that another API server was told of.
const migrationPeriod = 5 * time.Minute

// addMaintenanceHooks keeps bootstrap tokens, flow objects and the tracking of tokens right,
// removes orphans and migrates what is stored as long as the server runs.
func (b *builder) addMaintenanceHooks() error {
	return b.generic.AddPostStartHook("gantry-upkeep", func(ctx genericapiserver.PostStartHookContext) error {
		objects, err := dynamic.NewForConfig(b.loopback)
		if err != nil {
			return err
		}
		etcd, err := b.server.store.Client()
		if err != nil {
			return err
		}
		go func() {
			defer etcd.Close()
			m := storageversionmigrator.Controller{
				Client: b.client.StoragemigrationV1().StorageVersionMigrations(), Created: b.migrationSignal,
				Period: migrationPeriod,
				Migrator: &storageversionmigrator.Migrator{Etcd: etcd, Discovery: b.client.Discovery(),
					Objects: objects, Prefix: KeyPrefix},
			}
			m.Run(ctx)
		}()
		go bootstraptoken.Run(ctx, b.client)
		go b.ensureFlowObjects(ctx)
		return b.cleanOrphanedObjects(ctx)
	})
}

// cleanOrphanedObjects looks for objects whose namespace does not exist, once the first namespaces
// are made.
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
		etcd.Close()
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
