package app

import (
	"fmt"

	"github.com/spf13/cobra"
)

// commands are Gantry's subcommands; one row each, in the order of help.
func commands(io IO) []*cobra.Command {
	return []*cobra.Command{
		newUpCommand(io),
		newServer(io),
		withUnit(io, newKubelet(io)),
		newManifests(io),
		newScheduler(io),
		newControllers(io),
		newProxy(io),
		newDNS(io),
		newWhy(io),
		newTrace(io),
		newLint(io),
		newDoctor(io),
		newImage(io),
		newCRI(io),
		newEtcd(io),
		newClean(io),
		newVersion(io),
		program("kubectl", "Run kubectl, with the kubeconfig that `gantry up` wrote", "  gantry kubectl get pods -A"),
		program("containerd", "Run containerd, as `gantry up` does for itself", "  gantry containerd --version"),
	}
}

// program documents a program that lives in this binary; Main runs it before flags are read.
func program(name, short, example string) *cobra.Command {
	return &cobra.Command{Use: name + " [args]", Short: short, Example: example, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error { return nil }}
}

func newVersion(io IO) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version and the Kubernetes API level", Example: "  gantry version",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(io.Out, "gantry %s, Kubernetes v%s\n", buildRevision(), kubeVersion)
			return err
		},
	}
}
