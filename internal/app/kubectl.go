package app

import (
	"context"
	"os"

	componentcli "k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/containerd"
	"github.com/gantry-project/gantry/internal/gcpacer"
)

// RunKubectl is kubectl itself, with the kubeconfig that `gantry up` wrote unless another one is
// named.
func RunKubectl(args []string) int {
	if os.Getenv("KUBECONFIG") == "" {
		if path := cli.DefaultKubeconfig(); path != "" {
			_ = os.Setenv("KUBECONFIG", path) // fails only on a name with '='
		}
	}
	os.Args = append([]string{"kubectl"}, args...)
	return componentcli.Run(kubectl.NewDefaultKubectlCommand())
}

// RunContainerd is containerd itself, with the memory of Gantry's other processes; it returns the
// exit code.
func RunContainerd(args []string) int {
	gcpacer.Run(context.Background())
	return containerd.Main(args)
}
