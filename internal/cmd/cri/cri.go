package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/cri/crictl"
	"github.com/gantry-project/gantry/internal/options"
)

// criCommand asks this machine's container runtime, past API server and kubelet. Names of commands
// and flags are crictl's.
type criCommand struct {
	io       cli.IO
	instance options.Instance
	timeout  time.Duration
	debug    bool
}

func New(io cli.IO) *cobra.Command {
	r := &criCommand{io: io}
	c := &cobra.Command{
		Use:   "cri",
		Short: "Ask this machine's container runtime directly, as crictl does",
		Long: "cri speaks to the container runtime's socket, past the API server and the kubelet, and prints what " +
			"the runtime says in crictl's columns.\n" +
			"When the three disagree about what is on a node the runtime is right; `gantry cri diff` lists where " +
			"they do. crictl itself works on the same socket:\n" +
			"`gantry cri endpoint` prints it.",
		Example: "  sudo gantry cri pods\n  sudo gantry cri ps -a --name web\n  sudo gantry cri logs -f 3f2a\n  sudo " +
			"gantry cri exec -it 3f2a sh\n  sudo gantry cri diff",
	}
	f := c.PersistentFlags()
	r.instance.DataFlag(f)
	f.StringVarP(&r.instance.Runtime, "runtime-endpoint", "r", "",
		"CRI socket (default: that of the instance in DATA-DIR)")
	f.StringVar(&r.instance.CRI.ImageEndpoint, "image-endpoint", "", "CRI socket of a separate image service")
	f.DurationVar(&r.timeout, "timeout", 10*time.Second, "time limit of one call")
	f.BoolVarP(&r.debug, "debug", "D", false, "print each request and its answer to standard error")
	c.AddCommand(r.pods(), r.ps(), r.images(), r.inspect(), r.inspectPod(), r.inspectImage(), r.logs(), r.exec(),
		r.stats(), r.info(), r.version(), r.endpoint(), newCRIDiff(r))
	return c
}

func (r *criCommand) socket() (string, error) {
	if err := r.instance.Complete(); err != nil {
		return "", err
	}
	return r.instance.RuntimeEndpoint(), nil
}

// withRuntime dials the runtime for one command.
func (r *criCommand) withRuntime(ctx context.Context, do func(*cri.Client) error) error {
	endpoint, err := r.socket()
	if err != nil {
		return err
	}
	o := cri.Options{Endpoint: endpoint, ImageEndpoint: r.instance.CRI.ImageEndpoint, Timeout: r.timeout,
		FailFast: true}
	if r.debug {
		o.OnMessage = func(request, answer proto.Message) {
			fmt.Fprintln(r.io.Err, crictl.Text(request))
			if answer != nil {
				fmt.Fprintln(r.io.Err, crictl.Text(answer))
			}
		}
	}
	c, err := cri.Dial(ctx, o)
	if err != nil {
		return cli.WithFix(err,
			"name the runtime's socket with --runtime-endpoint, or the instance with --data-dir%s; the socket is "+
				"root's", options.RunningInstances())
	}
	defer c.Close()
	return do(c)
}

// listOptions binds the options that crictl's listings share.
type listOptions struct {
	crictl.ListOptions
	labels map[string]string
}

func (l *listOptions) flags(f *pflag.FlagSet, what string) {
	f.StringVar(&l.ID, "id", "", "the one with this id, or the beginning of it")
	f.StringVar(&l.Name, "name", "", "regular expression of the "+what+"'s name")
	f.StringVar(&l.Namespace, "namespace", "", "regular expression of the Pod's namespace")
	f.StringVarP(&l.State, "state", "s", "", "state of the "+what)
	f.StringToStringVar(&l.labels, "label", nil, "KEY=VALUE labels it must have")
	f.BoolVarP(&l.Latest, "latest", "l", false, "the newest only")
	f.IntVarP(&l.Last, "last", "n", 0, "the newest so many; 0 is all")
	l.outputFlag(f)
}

func (l *listOptions) outputFlag(f *pflag.FlagSet) {
	f.BoolVarP(&l.Quiet, "quiet", "q", false, "print ids only")
	f.BoolVar(&l.NoTruncate, "no-trunc", false, "do not shorten ids")
	f.StringVarP(&l.Output, "output", "o", "table", "table, json or yaml")
}

func (l *listOptions) complete(states ...string) (crictl.ListOptions, error) {
	l.Labels, l.Now = l.labels, time.Now()
	if err := l.Check(states...); err != nil {
		return crictl.ListOptions{}, cli.UsageError(err)
	}
	return l.ListOptions, nil
}

func (r *criCommand) pods() *cobra.Command {
	l := &listOptions{}
	c := &cobra.Command{Use: "pods", Short: "List Pods", Example: "  sudo gantry cri pods --state ready",
		Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
			list, err := l.complete(crictl.PodStates...)
			if err != nil {
				return err
			}
			return r.withRuntime(c.Context(),
				func(k *cri.Client) error { return crictl.Pods(c.Context(), k.Runtime(), list, r.io.Out) })
		}}
	l.flags(c.Flags(), "Pod")
	return c
}

func (r *criCommand) ps() *cobra.Command {
	l, all := &listOptions{}, false
	c := &cobra.Command{Use: "ps", Short: "List containers",
		Example: "  sudo gantry cri ps -a\n  sudo gantry cri ps --pod 9e3a --state exited", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			list, err := l.complete(crictl.ContainerStates...)
			if err != nil {
				return err
			}
			if !all && list.State == "" {
				list.State = "running"
			}
			return r.withRuntime(c.Context(),
				func(k *cri.Client) error { return crictl.Containers(c.Context(), k.Runtime(), list, r.io.Out) })
		}}
	l.flags(c.Flags(), "container")
	c.Flags().BoolVarP(&all, "all", "a", false, "those that do not run too")
	c.Flags().StringVarP(&l.Pod, "pod", "p", "", "those of the Pod with this id")
	c.Flags().StringVar(&l.Image, "image", "", "those of this image")
	return c
}

func (r *criCommand) images() *cobra.Command {
	l := &listOptions{}
	c := &cobra.Command{Use: "images [NAME]", Aliases: []string{"image"}, Short: "List images",
		Example: "  sudo gantry cri images --digests", Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			l.Image = strings.Join(args, "")
			list, err := l.complete()
			if err != nil {
				return err
			}
			return r.withRuntime(c.Context(),
				func(k *cri.Client) error { return crictl.Images(c.Context(), k.Images(), list, r.io.Out) })
		}}
	l.outputFlag(c.Flags())
	c.Flags().BoolVar(&l.Digests, "digests", false, "show digests")
	return c
}

// statuses makes a command that prints the status of what is named.
func (r *criCommand) statuses(c *cobra.Command, one func(ctx context.Context, k *cri.Client, id string,
	verbose bool) (crictl.Status, error)) *cobra.Command {
	form, quiet := "", false
	c.Args = cobra.MinimumNArgs(1)
	c.RunE = func(c *cobra.Command, ids []string) error {
		if form != "json" && form != "yaml" {
			return cli.UsageError(fmt.Errorf("-o %s: must be json or yaml", form))
		}
		return r.withRuntime(c.Context(), func(k *cri.Client) error {
			var list []crictl.Status
			for _, id := range ids {
				s, err := one(c.Context(), k, id, !quiet)
				if err != nil {
					return fmt.Errorf("%s: %w", id, err)
				}
				list = append(list, s)
			}
			return crictl.Inspect(r.io.Out, form, list...)
		})
	}
	c.Flags().StringVarP(&form, "output", "o", "json", "json or yaml")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "leave out what the runtime adds of its own")
	return c
}

func (r *criCommand) inspect() *cobra.Command {
	c := &cobra.Command{Use: "inspect CONTAINER-ID…", Short: "Print the status of containers",
		Example: "  sudo gantry cri inspect 3f2a"}
	return r.statuses(c, func(ctx context.Context, k *cri.Client, id string, verbose bool) (crictl.Status, error) {
		s, err := k.Runtime().ContainerStatus(ctx, id, verbose)
		return crictl.Status{Status: s.GetStatus(), Info: s.GetInfo()}, err
	})
}

func (r *criCommand) inspectPod() *cobra.Command {
	c := &cobra.Command{Use: "inspectp POD-ID…", Short: "Print the status of Pods' sandboxes",
		Example: "  sudo gantry cri inspectp 9e3a"}
	return r.statuses(c, func(ctx context.Context, k *cri.Client, id string, verbose bool) (crictl.Status, error) {
		s, err := k.Runtime().PodSandboxStatus(ctx, id, verbose)
		return crictl.Status{Status: s.GetStatus(), Info: s.GetInfo()}, err
	})
}

func (r *criCommand) inspectImage() *cobra.Command {
	c := &cobra.Command{Use: "inspecti IMAGE…", Short: "Print the status of images",
		Example: "  sudo gantry cri inspecti busybox:1.28"}
	return r.statuses(c, func(ctx context.Context, k *cri.Client, id string, verbose bool) (crictl.Status, error) {
		s, err := k.Images().ImageStatus(ctx, &runtimeapi.ImageSpec{Image: id}, verbose)
		if err == nil && s.GetImage() == nil {
			err = errors.New("no such image")
		}
		return crictl.Status{Status: s.GetImage(), Info: s.GetInfo()}, err
	})
}

func (r *criCommand) stats() *cobra.Command {
	l, seconds := &listOptions{}, 1
	c := &cobra.Command{Use: "stats [CONTAINER-ID]", Short: "Print what containers use",
		Example: "  sudo gantry cri stats", Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				l.ID = args[0]
			}
			l.Sample = time.Duration(seconds) * time.Second
			list, err := l.complete()
			if err != nil {
				return err
			}
			return r.withRuntime(c.Context(),
				func(k *cri.Client) error { return crictl.Stats(c.Context(), k.Runtime(), list, r.io.Out) })
		}}
	l.outputFlag(c.Flags())
	c.Flags().StringVarP(&l.Pod, "pod", "p", "", "those of the Pod with this id")
	c.Flags().IntVarP(&seconds, "seconds", "s", 1, "over how many seconds use of the processor is measured")
	return c
}

func (r *criCommand) info() *cobra.Command {
	c := &cobra.Command{Use: "info", Short: "Print the runtime's conditions and what it can do",
		Example: "  sudo gantry cri info", Args: cobra.NoArgs}
	c.RunE = func(c *cobra.Command, _ []string) error {
		return r.withRuntime(c.Context(), func(k *cri.Client) error {
			s, err := k.Runtime().Status(c.Context(), true)
			if err != nil {
				return err
			}
			return crictl.Inspect(r.io.Out, "json", crictl.Status{Status: s.GetStatus(), Info: s.GetInfo()})
		})
	}
	return c
}

func (r *criCommand) version() *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Print the runtime's version", Example: "  sudo gantry cri version",
		Args: cobra.NoArgs}
	c.RunE = func(c *cobra.Command, _ []string) error {
		return r.withRuntime(c.Context(), func(k *cri.Client) error {
			v := k.Version()
			_, err := fmt.Fprintf(r.io.Out,
				"Version:  %s\nRuntimeName:  %s\nRuntimeVersion:  %s\nRuntimeApiVersion:  %s\n", v.Version,
				v.RuntimeName, v.RuntimeVersion, v.RuntimeApiVersion)
			return err
		})
	}
	return c
}

func (r *criCommand) endpoint() *cobra.Command {
	c := &cobra.Command{Use: "endpoint", Short: "Print the runtime's socket, for crictl and others",
		Example: "  sudo crictl --runtime-endpoint $(gantry cri endpoint) pods", Args: cobra.NoArgs}
	c.RunE = func(*cobra.Command, []string) error {
		endpoint, err := r.socket()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(r.io.Out, endpoint)
		return err
	}
	return c
}

// container finds a container by the beginning of its id, running or not.
func container(ctx context.Context, rt internalapi.RuntimeService, id string) (*runtimeapi.ContainerStatus, error) {
	list, err := rt.ListContainers(ctx, nil)
	if err != nil {
		return nil, err
	}
	found, err := crictl.FindContainer(list, id)
	if err != nil {
		return nil, err
	}
	s, err := rt.ContainerStatus(ctx, found.Id, false)
	return s.GetStatus(), err
}
