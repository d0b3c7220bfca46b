package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/scheduler/plugins"
	"github.com/gantry-project/gantry/internal/scheduler/server"
)

// Factory makes a plugin; it has the signature of kube-scheduler's. args are the plugin's arguments
// as the file has them (see DecodeInto); nil when it has none.
type Factory = func(ctx context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error)

// Option changes the scheduler that New makes.
type Option func(*command)

// command is what New collects.
type command struct {
	plugins    map[string]plugins.Factory
	duplicates []string
	kubeconfig string
	master     string
	flags      server.Flags
}

// WithPlugin compiles a plugin in. It does nothing until a profile enables it by name. Names of the
// default profile's plugins are taken.
func WithPlugin(name string, factory Factory) Option {
	return func(c *command) {
		if _, have := plugins.Lookup(name); have || c.plugins[name] != nil {
			c.duplicates = append(c.duplicates, name)
		}
		c.plugins[name] = factory
	}
}

// New makes the command of a scheduler.
func New(options ...Option) *cobra.Command {
	c := &command{plugins: map[string]plugins.Factory{}}
	for _, o := range options {
		o(c)
	}
	cmd := &cobra.Command{
		Use: "kube-scheduler", Short: "A Kubernetes scheduler with plugins of its own", Args: cobra.NoArgs,
		SilenceUsage: true,
		RunE:         func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	cmd.Flags().StringVar(&c.kubeconfig, "kubeconfig", "",
		"kubeconfig of the API server (default: clientConnection.kubeconfig of the configuration file, then the "+
			"Pod's own service account)")
	cmd.Flags().StringVar(&c.master, "master", "", "address of the API server, over that of the kubeconfig")
	c.flags.Add(cmd.Flags())
	logs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(logs)
	cmd.Flags().AddGoFlag(logs.Lookup("v"))
	return cmd
}

// NewSchedulerCommand is New under the name that programs built against kube-scheduler use.
func NewSchedulerCommand(options ...Option) *cobra.Command { return New(options...) }

func (c *command) run(ctx context.Context) error {
	if len(c.duplicates) > 0 {
		return fmt.Errorf("plugin names taken twice: %v: give each plugin a name of its own", c.duplicates)
	}
	o, err := c.flags.Options(slices.Sorted(maps.Keys(c.plugins))...)
	if err != nil {
		return err
	}
	file := c.kubeconfig
	if file == "" {
		file = o.Config.ClientConnection.Kubeconfig
	}
	if o.KubeConfig, err = clientcmd.BuildConfigFromFlags(c.master, file); err != nil {
		if errors.Is(err, rest.ErrNotInCluster) {
			return fmt.Errorf("no API server to schedule for: %w; name a kubeconfig with --kubeconfig", err)
		}
		return err
	}
	o.Plugins = c.plugins
	return server.Run(ctx, o)
}

// DecodeInto reads a plugin's arguments into a struct of its own; unknown fields are refused by
// name.
func DecodeInto(args runtime.Object, into any) error {
	switch a := args.(type) {
	case nil:
		return nil
	case *runtime.Unknown:
		if a == nil || len(a.Raw) == 0 {
			return nil
		}
		if err := yaml.UnmarshalStrict(a.Raw, into); err != nil {
			return fmt.Errorf("arguments of the plugin: %w", err)
		}
		return nil
	}
	return fmt.Errorf("arguments are of type %T, want %T", args, &runtime.Unknown{})
}
