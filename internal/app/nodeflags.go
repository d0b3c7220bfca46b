package app

import (
	"github.com/spf13/pflag"

	"github.com/gantry-project/gantry/internal/app/noderole"
	"github.com/gantry-project/gantry/internal/options"
	"github.com/gantry-project/gantry/internal/scheduler/server"
)

// nodeFlags are those of a node and of what runs beside its kubelet.
type nodeFlags struct {
	noderole.KubeletOptions
	schedulerConfig string
	schedulerPort   int
	shadowCheck     bool
	record          options.DecisionRecorder
	proxy           proxyFlags
	DNS             dnsFlags
	localStorage    bool
}

func (n *nodeFlags) Flags(f *pflag.FlagSet) {
	n.KubeletFlags(f)
	n.ConfigFlags(f, "kubelet-")
	f.StringVar(&n.schedulerConfig, "scheduler-config", "", "KubeSchedulerConfiguration file")
	n.record.Flags(f, "scheduler-record")
	n.proxy.flags(f)
	n.DNS.upFlags(f)
	f.BoolVar(&n.localStorage, "local-storage", true,
		"make the volumes of claims without a class on this node's disk (CSI driver local.csi.gantry.dev, "+
			"StorageClass local)")
	f.BoolVar(&n.shadowCheck, "shadow-check", false,
		"let the scheduler rule twice, from memory and by asking every plugin about every node, and report any "+
			"difference")
	f.IntVar(&n.schedulerPort, "scheduler-port", server.Port,
		"port on 127.0.0.1 for the scheduler's health and metrics; 0 serves none")
}

// loadConfig reads the kubelet's configuration; Pods ask this cluster's DNS server where there is
// one.
func (n *nodeFlags) loadConfig(p *options.Instance) error {
	var servers []string
	if at, ok := n.DNS.clusterDNS(p); ok {
		servers = []string{at.String()}
	}
	return n.Load(p, servers)
}
