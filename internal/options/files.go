package options

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/containerd"
	"github.com/gantry-project/gantry/internal/instance"
	"github.com/gantry-project/gantry/internal/pki"
)

// RunningInstances names the instances that run on this machine, for who named another one.
func RunningInstances() string {
	if list := containerd.RunningInstances(); len(list) > 0 {
		return " (running here: " + strings.Join(list, ", ") + ")"
	}
	return ""
}

// PKIDir is where a node's certificates are.
func (p *Instance) PKIDir() string { return filepath.Join(p.DataDir, "kubelet-pki") }

func (p *Instance) ContainerdConfig() containerd.Config {
	return containerd.Config{DataDir: p.DataDir, BinDir: p.dirs.bin, CNIConfDir: p.PodNetwork.cniConfDir,
		SystemdCgroup: p.SystemdCgroup}
}

// CgroupRoot holds every cgroup of the instance.
func (p *Instance) CgroupRoot() string { return "/gantry-" + instance.ID(p.DataDir) }

// EnsureCertificates makes or renews everything below DATA-DIR/pki.
func (p *Instance) EnsureCertificates() (*pki.Files, error) {
	files, err := pki.Ensure(filepath.Join(p.DataDir, "pki"), pki.Options{
		NodeName: p.NodeName, BindAddress: p.BindAddress, ServiceIP: p.firstServiceIP(),
		ExtraNames: append(p.NodeIPs(), "127.0.0.1", "localhost"),
	})
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	return files, nil
}

// WriteKubeconfigs writes the administrator's kubeconfig and those of the components, each 0600.
func (p *Instance) WriteKubeconfigs(files *pki.Files) error {
	ca, err := os.ReadFile(files.CA.Cert)
	if err != nil {
		return err
	}
	for _, k := range []struct {
		path string
		pair pki.Pair
		url  string
	}{
		{cli.KubeconfigIn(p.DataDir), files.Admin, p.ServerURL()},
		{filepath.Join(p.DataDir, "scheduler.kubeconfig"), files.Scheduler, p.ServerURL()},
		{filepath.Join(p.DataDir, "controllers.kubeconfig"), files.ControllerManager, p.ServerURL()},
		{filepath.Join(p.DataDir, "kubelet.kubeconfig"), files.Node, p.ServerURL()},
		// For nodes that join, to be copied there.
		{filepath.Join(p.DataDir, "network.kubeconfig"), files.Network, p.advertisedURL()},
		{filepath.Join(p.DataDir, "local-storage.kubeconfig"), files.LocalStorage, p.advertisedURL()},
		{filepath.Join(p.DataDir, "proxy.kubeconfig"), files.Proxy, p.advertisedURL()},
	} {
		cert, err := os.ReadFile(k.pair.Cert)
		if err != nil {
			return err
		}
		key, err := os.ReadFile(k.pair.Key)
		if err != nil {
			return err
		}
		if err := pki.WriteKubeconfig(k.path, k.url, pki.Material{CA: ca, Cert: cert, Key: key}); err != nil {
			return cli.WithFix(fmt.Errorf("kubeconfig %s: %w", k.path, err), "make %s writable", p.DataDir)
		}
	}
	return nil
}
