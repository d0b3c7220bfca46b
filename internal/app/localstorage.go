package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/version"

	"github.com/gantry-project/gantry/internal/app/noderole"
	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/csidriver"
	"github.com/gantry-project/gantry/internal/csidriver/provisioner"
	"github.com/gantry-project/gantry/internal/options"
	"github.com/gantry-project/gantry/internal/pki"
)

// localVolumesDir is where the driver of local volumes keeps them.
func localVolumesDir(p *options.Instance) string { return filepath.Join(p.DataDir, "local-storage") }

// localDriver is where the driver of a node works, below its kubelet's directory.
func localDriver(volumes, kubelet, node string) csidriver.Options {
	return csidriver.Options{Dir: volumes, NodeID: node, Version: version.Get().GitVersion,
		Endpoint:     filepath.Join(kubelet, "plugins", csidriver.Name, "csi.sock"),
		Registration: filepath.Join(kubelet, "plugins_registry", csidriver.Name+"-reg.sock")}
}

// runLocalStorage runs the driver of local volumes and what provisions them.
func (u *Up) runLocalStorage(ctx context.Context, c runningCluster) error {
	if !u.Node.localStorage {
		<-ctx.Done()
		return nil
	}
	return runDriver(ctx, localDriver(localVolumesDir(&u.Instance), u.Instance.KubeletDir(),
		u.Instance.NodeName), c.server.InProcess(&user.DefaultInfo{Name: pki.LocalStorageUser,
		Groups: []string{user.AllAuthenticated}}), u.Instance.APIServer.Gates.CSIVolumeHealth)
}

// runDriver runs a driver and, with a connection to the cluster, what provisions its volumes and,
// with health, reports how they are.
func runDriver(ctx context.Context, o csidriver.Options, cluster *rest.Config, health bool) error {
	driver, err := csidriver.New(o)
	if err != nil {
		return err
	}
	if cluster == nil {
		return driver.Run(ctx)
	}
	client, err := noderole.ClientFor(cluster, "local-storage")
	if err != nil {
		return err
	}
	return noderole.RunAll(ctx, driver.Run, func(ctx context.Context) error {
		return provisioner.Run(ctx, provisioner.Options{Client: client, Driver: csidriver.Name, Endpoint: o.Endpoint,
			NodeName: o.NodeID, TopologyKey: csidriver.TopologyKey, Health: health})
	})
}

// CSIDriver is the driver of local volumes alone, on a node of any cluster.
type CSIDriver struct {
	Role                   cli.Role
	volumes, kubelet, node string
	endpoint, registration string
	provision, health      bool
}

// Flags registers the driver's flags.
func (d *CSIDriver) Flags(f *pflag.FlagSet) {
	f.StringVar(&d.node, "node-name", "", "name of this node (default: the host's name)")
	f.StringVar(&d.volumes, "volumes-dir", "/var/lib/gantry-local-storage", "directory of the volumes")
	f.StringVar(&d.kubelet, "kubelet-dir", "/var/lib/kubelet",
		"the kubelet's directory; of a node of Gantry's: DATA-DIR/kubelet")
	f.StringVar(&d.endpoint, "endpoint", "",
		"socket that the kubelet and sidecars call (default: KUBELET-DIR/plugins/"+csidriver.Name+"/csi.sock)")
	f.StringVar(&d.registration, "registration-socket", "",
		"socket by which the kubelet learns of the driver; none: a node-driver-registrar does that (default: "+
			"KUBELET-DIR/plugins_registry/"+csidriver.Name+"-reg.sock)")
	f.BoolVar(&d.provision, "provision", true,
		"make, grow and remove volumes for claims, report the node's storage capacity, and make the CSIDriver and "+
			"the StorageClass; false when the external-provisioner and external-resizer do")
	f.BoolVar(&d.health, "volume-health", false,
		"write into claims' status how their volumes are; for an API server with the gate CSIVolumeHealth")
}

// Run runs the driver until ctx ends; volumes stay mounted.
func (d *CSIDriver) Run(ctx context.Context, cluster *rest.Config) error {
	if err := cli.RequireRoot("gantry csi-driver"); err != nil {
		return err
	}
	if d.node == "" {
		host, err := os.Hostname()
		if err != nil {
			return err
		}
		d.node = host
	}
	for _, dir := range []string{d.volumes, d.kubelet} {
		if !filepath.IsAbs(dir) {
			return cli.UsageError(errors.New("--volumes-dir and --kubelet-dir are absolute paths, got " + dir))
		}
	}
	o := localDriver(d.volumes, d.kubelet, d.node)
	if d.endpoint != "" {
		o.Endpoint = d.endpoint
	}
	if d.registration == "none" {
		o.Registration = ""
	} else if d.registration != "" {
		o.Registration = d.registration
	}
	if !d.provision {
		cluster = nil
	}
	return runDriver(ctx, o, cluster, d.health)
}

// RunWithoutKubeconfig runs the driver in a Pod, with its ServiceAccount, or without an API server
// when others provision.
func (d *CSIDriver) RunWithoutKubeconfig(ctx context.Context) error {
	if !d.provision {
		return d.Run(ctx, nil)
	}
	cluster, err := rest.InClusterConfig()
	if err != nil {
		return cli.WithFix(err, "name a kubeconfig with --kubeconfig, or leave provisioning to others with "+
			"--provision=false")
	}
	return d.Run(ctx, cluster)
}
