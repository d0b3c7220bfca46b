package app

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

	"github.com/gantry-project/gantry/internal/containerd"
	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/cri/ctl"
)

// criCommand asks this machine's container runtime, past API server and kubelet. Names of commands and flags are crictl's.
type criCommand struct {
	IO
	place   place
	timeout time.Duration
	debug   bool
}

func newCRI(io IO) *cobra.Command {
	r := &criCommand{IO: io}
	c := &cobra.Command{
		Use:   "cri",
		Short: "Ask this machine's container runtime directly, as crictl does",
		Long: "cri speaks to the container runtime's socket, past the API server and the kubelet, and prints what the runtime says in crictl's columns.\n" +
			"When the three disagree about what is on a node the runtime is right; `gantry cri diff` lists where they do. crictl itself works on the same socket:\n" +
			"`gantry cri endpoint` prints it.",
		Example: "  sudo gantry cri pods\n  sudo gantry cri ps -a --name web\n  sudo gantry cri logs -f 3f2a\n  sudo gantry cri exec -it 3f2a sh\n  sudo gantry cri diff",
	}
	f := c.PersistentFlags()
	r.place.dataFlag(f)
	f.StringVarP(&r.place.runtime, "runtime-endpoint", "r", "", "CRI socket (default: that of the instance in DATA-DIR)")
	f.StringVar(&r.place.cri.ImageEndpoint, "image-endpoint", "", "CRI socket of a separate image service")
	f.DurationVar(&r.timeout, "timeout", 10*time.Second, "time limit of one call")
	f.BoolVarP(&r.debug, "debug", "D", false, "print each request and its answer to standard error")
	c.AddCommand(r.pods(), r.ps(), r.images(), r.inspect(), r.inspectPod(), r.inspectImage(), r.logs(), r.exec(), r.stats(), r.info(), r.version(), r.endpoint(), newCRIDiff(r))
	return c
}

func (r *criCommand) socket() (string, error) {
	if err := r.place.complete(); err != nil {
		return "", err
	}
	return (&sightseer{place: &r.place}).endpoint(), nil
}

// runningHere names the instances that run on this machine, for who named another one.
func runningHere() string {
	if list := containerd.Running(); len(list) > 0 {
		return " (running here: " + strings.Join(list, ", ") + ")"
	}
	return ""
}

// ask dials the runtime for one command.
func (r *criCommand) ask(ctx context.Context, do func(*cri.Client) error) error {
	endpoint, err := r.socket()
	if err != nil {
		return err
	}
	o := cri.Options{Endpoint: endpoint, ImageEndpoint: r.place.cri.ImageEndpoint, Timeout: r.timeout, FailFast: true}
	if r.debug {
		o.Messages = func(request, answer proto.Message) {
			fmt.Fprintln(r.Err, ctl.Text(request))
			if answer != nil {
				fmt.Fprintln(r.Err, ctl.Text(answer))
			}
		}
	}
	c, err := cri.Dial(ctx, o)
	if err != nil {
		return withFix(err, "name the runtime's socket with --runtime-endpoint, or the instance with --data-dir%s; the socket is root's", runningHere())
	}
	defer c.Close()
	return do(c)
}

// listing binds the options that crictl's listings share.
type listing struct {
	ctl.List
	labels map[string]string
}

func (l *listing) flags(f *pflag.FlagSet, what string) {
	f.StringVar(&l.ID, "id", "", "the one with this id, or the beginning of it")
	f.StringVar(&l.Name, "name", "", "regular expression of the "+what+"'s name")
	f.StringVar(&l.Namespace, "namespace", "", "regular expression of the Pod's namespace")
	f.StringVarP(&l.State, "state", "s", "", "state of the "+what)
	f.StringToStringVar(&l.labels, "label", nil, "KEY=VALUE labels it must have")
	f.BoolVarP(&l.Latest, "latest", "l", false, "the newest only")
	f.IntVarP(&l.Last, "last", "n", 0, "the newest so many; 0 is all")
	l.form(f)
}

func (l *listing) form(f *pflag.FlagSet) {
	f.BoolVarP(&l.Quiet, "quiet", "q", false, "print ids only")
	f.BoolVar(&l.Whole, "no-trunc", false, "do not shorten ids")
	f.StringVarP(&l.Output, "output", "o", "table", "table, json or yaml")
}

func (l *listing) ready(states ...string) (ctl.List, error) {
	l.Labels, l.Now = l.labels, time.Now()
	if err := l.Check(states...); err != nil {
		return ctl.List{}, usageError{err}
	}
	return l.List, nil
}

func (r *criCommand) pods() *cobra.Command {
	l := &listing{}
	c := &cobra.Command{Use: "pods", Short: "List Pods", Example: "  sudo gantry cri pods --state ready", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		list, err := l.ready(ctl.PodStates...)
		if err != nil {
			return err
		}
		return r.ask(c.Context(), func(k *cri.Client) error { return ctl.Pods(c.Context(), k.Runtime(), list, r.Out) })
	}}
	l.flags(c.Flags(), "Pod")
	return c
}

func (r *criCommand) ps() *cobra.Command {
	l, all := &listing{}, false
	c := &cobra.Command{Use: "ps", Short: "List containers", Example: "  sudo gantry cri ps -a\n  sudo gantry cri ps --pod 9e3a --state exited", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		list, err := l.ready(ctl.ContainerStates...)
		if err != nil {
			return err
		}
		if !all && list.State == "" {
			list.State = "running"
		}
		return r.ask(c.Context(), func(k *cri.Client) error { return ctl.Containers(c.Context(), k.Runtime(), list, r.Out) })
	}}
	l.flags(c.Flags(), "container")
	c.Flags().BoolVarP(&all, "all", "a", false, "those that do not run too")
	c.Flags().StringVarP(&l.Pod, "pod", "p", "", "those of the Pod with this id")
	c.Flags().StringVar(&l.Image, "image", "", "those of this image")
	return c
}

func (r *criCommand) images() *cobra.Command {
	l := &listing{}
	c := &cobra.Command{Use: "images [NAME]", Aliases: []string{"image"}, Short: "List images", Example: "  sudo gantry cri images --digests", Args: cobra.MaximumNArgs(1), RunE: func(c *cobra.Command, args []string) error {
		l.Image = strings.Join(args, "")
		list, err := l.ready()
		if err != nil {
			return err
		}
		return r.ask(c.Context(), func(k *cri.Client) error { return ctl.Images(c.Context(), k.Images(), list, r.Out) })
	}}
	l.form(c.Flags())
	c.Flags().BoolVar(&l.Digests, "digests", false, "show digests")
	return c
}

// statuses makes a command that prints the status of what is named.
func (r *criCommand) statuses(c *cobra.Command, one func(ctx context.Context, k *cri.Client, id string, verbose bool) (ctl.Status, error)) *cobra.Command {
	form, quiet := "", false
	c.Args = cobra.MinimumNArgs(1)
	c.RunE = func(c *cobra.Command, ids []string) error {
		if form != "json" && form != "yaml" {
			return usageError{fmt.Errorf("-o %s: must be json or yaml", form)}
		}
		return r.ask(c.Context(), func(k *cri.Client) error {
			var list []ctl.Status
			for _, id := range ids {
				s, err := one(c.Context(), k, id, !quiet)
				if err != nil {
					return fmt.Errorf("%s: %w", id, err)
				}
				list = append(list, s)
			}
			return ctl.Inspect(r.Out, form, list...)
		})
	}
	c.Flags().StringVarP(&form, "output", "o", "json", "json or yaml")
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "leave out what the runtime adds of its own")
	return c
}

func (r *criCommand) inspect() *cobra.Command {
	c := &cobra.Command{Use: "inspect CONTAINER-ID…", Short: "Print the status of containers", Example: "  sudo gantry cri inspect 3f2a"}
	return r.statuses(c, func(ctx context.Context, k *cri.Client, id string, verbose bool) (ctl.Status, error) {
		s, err := k.Runtime().ContainerStatus(ctx, id, verbose)
		return ctl.Status{Status: s.GetStatus(), Info: s.GetInfo()}, err
	})
}

func (r *criCommand) inspectPod() *cobra.Command {
	c := &cobra.Command{Use: "inspectp POD-ID…", Short: "Print the status of Pods' sandboxes", Example: "  sudo gantry cri inspectp 9e3a"}
	return r.statuses(c, func(ctx context.Context, k *cri.Client, id string, verbose bool) (ctl.Status, error) {
		s, err := k.Runtime().PodSandboxStatus(ctx, id, verbose)
		return ctl.Status{Status: s.GetStatus(), Info: s.GetInfo()}, err
	})
}

func (r *criCommand) inspectImage() *cobra.Command {
	c := &cobra.Command{Use: "inspecti IMAGE…", Short: "Print the status of images", Example: "  sudo gantry cri inspecti busybox:1.28"}
	return r.statuses(c, func(ctx context.Context, k *cri.Client, id string, verbose bool) (ctl.Status, error) {
		s, err := k.Images().ImageStatus(ctx, &runtimeapi.ImageSpec{Image: id}, verbose)
		if err == nil && s.GetImage() == nil {
			err = errors.New("no such image")
		}
		return ctl.Status{Status: s.GetImage(), Info: s.GetInfo()}, err
	})
}

func (r *criCommand) stats() *cobra.Command {
	l, seconds := &listing{}, 1
	c := &cobra.Command{Use: "stats [CONTAINER-ID]", Short: "Print what containers use", Example: "  sudo gantry cri stats", Args: cobra.MaximumNArgs(1), RunE: func(c *cobra.Command, args []string) error {
		if len(args) == 1 {
			l.ID = args[0]
		}
		l.Sample = time.Duration(seconds) * time.Second
		list, err := l.ready()
		if err != nil {
			return err
		}
		return r.ask(c.Context(), func(k *cri.Client) error { return ctl.Stats(c.Context(), k.Runtime(), list, r.Out) })
	}}
	l.form(c.Flags())
	c.Flags().StringVarP(&l.Pod, "pod", "p", "", "those of the Pod with this id")
	c.Flags().IntVarP(&seconds, "seconds", "s", 1, "over how many seconds use of the processor is measured")
	return c
}

func (r *criCommand) info() *cobra.Command {
	c := &cobra.Command{Use: "info", Short: "Print the runtime's conditions and what it can do", Example: "  sudo gantry cri info", Args: cobra.NoArgs}
	c.RunE = func(c *cobra.Command, _ []string) error {
		return r.ask(c.Context(), func(k *cri.Client) error {
			s, err := k.Runtime().Status(c.Context(), true)
			if err != nil {
				return err
			}
			return ctl.Inspect(r.Out, "json", ctl.Status{Status: s.GetStatus(), Info: s.GetInfo()})
		})
	}
	return c
}

func (r *criCommand) version() *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Print the runtime's version", Example: "  sudo gantry cri version", Args: cobra.NoArgs}
	c.RunE = func(c *cobra.Command, _ []string) error {
		return r.ask(c.Context(), func(k *cri.Client) error {
			v := k.Version()
			_, err := fmt.Fprintf(r.Out, "Version:  %s\nRuntimeName:  %s\nRuntimeVersion:  %s\nRuntimeApiVersion:  %s\n", v.Version, v.RuntimeName, v.RuntimeVersion, v.RuntimeApiVersion)
			return err
		})
	}
	return c
}

func (r *criCommand) endpoint() *cobra.Command {
	c := &cobra.Command{Use: "endpoint", Short: "Print the runtime's socket, for crictl and others", Example: "  sudo crictl --runtime-endpoint $(gantry cri endpoint) pods", Args: cobra.NoArgs}
	c.RunE = func(*cobra.Command, []string) error {
		endpoint, err := r.socket()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(r.Out, endpoint)
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
	found, err := ctl.FindContainer(list, id)
	if err != nil {
		return nil, err
	}
	s, err := rt.ContainerStatus(ctx, found.Id, false)
	return s.GetStatus(), err
}
