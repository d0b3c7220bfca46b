package app

import (
	"context"
	"path/filepath"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gantry-project/gantry/internal/app/noderole"
	"github.com/gantry-project/gantry/internal/csidriver"
	"github.com/gantry-project/gantry/internal/csidriver/provisioner"
	"github.com/gantry-project/gantry/internal/options"
)

// localVolumesDir is where the driver of local volumes keeps them.
func localVolumesDir(p *options.Instance) string { return filepath.Join(p.DataDir, "local-storage") }

// localDriver is where the driver of an instance's node works.
func localDriver(p *options.Instance) csidriver.Options {
	kubelet := filepath.Join(p.DataDir, "kubelet")
	return csidriver.Options{Dir: localVolumesDir(p), NodeID: p.NodeName,
		Endpoint:     filepath.Join(kubelet, "plugins", csidriver.Name, "csi.sock"),
		Registration: filepath.Join(kubelet, "plugins_registry", csidriver.Name+"-reg.sock")}
}

// runLocalStorage runs the driver of local volumes and what provisions them.
func (u *Up) runLocalStorage(ctx context.Context, c runningCluster) error {
	if !u.Node.localStorage {
		<-ctx.Done()
		return nil
	}
	o := localDriver(&u.Instance)
	driver, err := csidriver.New(o)
	if err != nil {
		return err
	}
	client, err := noderole.ClientFor(c.server.InProcess(&user.DefaultInfo{Name: "gantry-local-storage",
		Groups: []string{user.AllAuthenticated}}), "local-storage")
	if err != nil {
		return err
	}
	return noderole.RunAll(ctx, driver.Run, func(ctx context.Context) error {
		return provisioner.Run(ctx, provisioner.Options{Client: client, Driver: csidriver.Name, Endpoint: o.Endpoint,
			NodeName: u.Instance.NodeName, TopologyKey: csidriver.TopologyKey})
	})
}
