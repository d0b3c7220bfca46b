// Command gantry-cni is the CNI plugin of Gantry's own Pod network; see internal/network/cniplugin.
package main

import (
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/gantry-project/gantry/internal/network/cniplugin"
)

func main() {
	skel.PluginMainFuncs(skel.CNIFuncs{
		Add: cniplugin.Add, Del: cniplugin.Del, Check: cniplugin.Check, GC: cniplugin.GC, Status: cniplugin.Status,
	}, version.All, "gantry-cni: Gantry's Pod network")
}
