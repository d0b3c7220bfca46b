// Package storecontrollers joins the API server with the controllers that run inside it.
//
// In: nothing. Out: rows for apiserver.Config.Controllers. To add a controller that needs the
// store: a package below internal/control and a row here.
package storecontrollers

import (
	"context"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/control/bootstrap"
	"github.com/gantry-project/gantry/internal/control/storageversionmigrator"
)

// migrationPeriod is how often migrations are looked for that another API server was told of.
const migrationPeriod = 5 * time.Minute

// All returns the controllers that run inside the API server, as they need its store or
// must run where no controller manager does: bootstrap tokens and the storage version migrator.
func All() []apiserver.Controller {
	return []apiserver.Controller{
		{Name: "bootstrap-signer", Run: func(ctx context.Context, e apiserver.ControllerContext) {
			bootstrap.Run(ctx, e.Client)
		}},
		{Name: "storage-version-migrator", Run: runStorageVersionMigrator},
	}
}

func runStorageVersionMigrator(ctx context.Context, e apiserver.ControllerContext) {
	objects, err := dynamic.NewForConfig(e.Config)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Stored objects are not migrated: no client could be made")
		return
	}
	c := storageversionmigrator.Controller{
		Client:  e.Client.StoragemigrationV1().StorageVersionMigrations(),
		Created: e.Migrations, Period: migrationPeriod,
		Migrator: &storageversionmigrator.Migrator{Etcd: e.Etcd, Discovery: e.Client.Discovery(), Objects: objects,
			Prefix: apiserver.KeyPrefix},
	}
	c.Run(ctx)
}
