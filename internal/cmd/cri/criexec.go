package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubectl/pkg/util/term"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/kubelet/logs"
)

func (r *criCommand) logs() *cobra.Command {
	o, since := logs.Options{Bytes: -1}, time.Duration(0)
	c := &cobra.Command{
		Use: "logs CONTAINER-ID", Short: "Print a container's log", Example: "  sudo gantry cri logs -f --tail 20 3f2a",
		Args: cli.ExactlyOne("a container's id, or the beginning of it"),
		RunE: func(c *cobra.Command, args []string) error {
			if since > 0 {
				o.Since = time.Now().Add(-since)
			}
			return r.withRuntime(c.Context(),
				func(k *cri.Client) error { return r.readLog(c.Context(), k, args[0], o) })
		},
	}
	f := c.Flags()
	f.BoolVarP(&o.Follow, "follow", "f", false, "print what comes, too")
	f.BoolVarP(&o.Timestamps, "timestamps", "t", false, "print when each line came")
	f.Int64Var(&o.Tail, "tail", -1, "the last so many lines; -1 is all")
	f.Int64Var(&o.Bytes, "limit-bytes", -1, "at most so many bytes; -1 is no limit")
	f.DurationVar(&since, "since", 0, "what came in the time before now, such as 5m")
	return c
}

func (r *criCommand) readLog(ctx context.Context, k *cri.Client, id string, o logs.Options) error {
	s, err := container(ctx, k.Runtime(), id)
	if err != nil {
		return err
	}
	if s.LogPath == "" {
		return fmt.Errorf("the runtime keeps no log of container %s", s.Id)
	}
	return logs.Read(ctx, logs.Request{Path: s.LogPath, Options: o, Out: r.io.Out, Err: r.io.Err,
		IsRunning: func(ctx context.Context) (bool, error) {
			now, err := k.Runtime().ContainerStatus(ctx, s.Id, false)
			return now.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING, err
		}})
}

func (r *criCommand) exec() *cobra.Command {
	stdin, tty, sync := false, false, false
	c := &cobra.Command{
		Use: "exec [-it] CONTAINER-ID COMMAND…", Short: "Run a command in a container", Args: cobra.MinimumNArgs(2),
		Example: "  sudo gantry cri exec -it 3f2a sh\n  sudo gantry cri exec -s 3f2a hostname",
		RunE: func(c *cobra.Command, args []string) error {
			return r.withRuntime(c.Context(), func(k *cri.Client) error {
				s, err := container(c.Context(), k.Runtime(), args[0])
				if err != nil {
					return err
				}
				if sync {
					return r.execSync(c.Context(), k, s.Id, args[1:])
				}
				return r.stream(c.Context(), k, &runtimeapi.ExecRequest{ContainerId: s.Id, Cmd: args[1:], Stdin: stdin,
					Tty: tty, Stdout: true, Stderr: !tty})
			})
		},
	}
	f := c.Flags()
	f.SetInterspersed(false) // what follows the id is the command's
	f.BoolVarP(&stdin, "interactive", "i", false, "pass standard input on")
	f.BoolVarP(&tty, "tty", "t", false, "give the command a terminal")
	f.BoolVarP(&sync, "sync", "s", false,
		"by ExecSync, the call that probes use: no input, the output comes at the end")
	return c
}

func (r *criCommand) execSync(ctx context.Context, k *cri.Client, id string, command []string) error {
	out, errOut, err := k.Runtime().ExecSync(ctx, id, command, r.timeout)
	_, outErr := r.io.Out.Write(out)
	_, errErr := r.io.Err.Write(errOut)
	return errors.Join(err, outErr, errErr)
}

// stream runs a command over the runtime's own streaming server, as the kubelet does.
func (r *criCommand) stream(ctx context.Context, k *cri.Client, q *runtimeapi.ExecRequest) error {
	answer, err := k.Runtime().Exec(ctx, q)
	if err != nil {
		return err
	}
	u, err := url.Parse(answer.Url)
	if err != nil {
		return fmt.Errorf("the runtime's streaming URL: %w", err)
	}
	e, err := remotecommand.NewSPDYExecutor(&rest.Config{}, http.MethodPost, u)
	if err != nil {
		return err
	}
	o := remotecommand.StreamOptions{Stdout: r.io.Out, Tty: q.Tty}
	t := term.TTY{Out: r.io.Out, Raw: q.Tty}
	if q.Stdin {
		o.Stdin, t.In = io.Reader(os.Stdin), os.Stdin
	}
	if !q.Tty {
		o.Stderr = r.io.Err
	} else if size := t.GetSize(); size != nil {
		o.TerminalSizeQueue = terminalSizes{t.MonitorSize(size)}
	}
	return t.Safe(func() error { return e.StreamWithContext(ctx, o) })
}

// terminalSizes tells the runtime of changes of the terminal's size.
type terminalSizes struct{ queue term.TerminalSizeQueue }

// Next implements remotecommand.TerminalSizeQueue; nil is the end.
func (s terminalSizes) Next() *remotecommand.TerminalSize {
	next := s.queue.Next()
	if next == nil {
		return nil
	}
	return &remotecommand.TerminalSize{Width: next.Width, Height: next.Height}
}
