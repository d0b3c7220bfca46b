// Command gantry-cni is the CNI plugin of Gantry's own Pod network; see internal/network/attach.
package main

import (
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/gantry-project/gantry/internal/network/attach"
)

func main() {
	skel.PluginMainFuncs(skel.CNIFuncs{
		Add: attach.Add, Del: attach.Del, Check: attach.Check, GC: attach.GC, Status: attach.Status,
	}, version.All, "gantry-cni: Gantry's Pod network")
}
