package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubectl/pkg/cmd/annotate"
	"k8s.io/kubectl/pkg/cmd/apply"
	"k8s.io/kubectl/pkg/cmd/create"
	kubectldelete "k8s.io/kubectl/pkg/cmd/delete"
	"k8s.io/kubectl/pkg/cmd/label"
	"k8s.io/kubectl/pkg/cmd/patch"
	"k8s.io/kubectl/pkg/cmd/replace"
	"k8s.io/kubectl/pkg/cmd/scale"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/trace"
)

// writeCommands are kubectl's commands that write, each of which `gantry trace` can follow.
func writeCommands(f cmdutil.Factory, streams genericiooptions.IOStreams) []*cobra.Command {
	const parent = "gantry trace"
	return []*cobra.Command{
		apply.NewCmdApply(parent, f, streams), create.NewCmdCreate(f, streams), replace.NewCmdReplace(f, streams),
		patch.NewCmdPatch(f, streams),
		kubectldelete.NewCmdDelete(f, streams), label.NewCmdLabel(f, streams),
		annotate.NewCmdAnnotate(parent, f, streams), scale.NewCmdScale(f, streams),
	}
}

// tracedWrites makes the subcommands of trace that write as kubectl does and tell how each write
// went.
func tracedWrites(out cli.IO) []*cobra.Command {
	l := &requestTraceListener{}
	flags := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag()
	flags.WrapConfigFn = func(c *rest.Config) *rest.Config {
		c.Wrap(l.wrap)
		return c
	}
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		if path := cli.DefaultKubeconfig(); path != "" {
			flags.KubeConfig = &path
		}
	}
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: out.Out, ErrOut: out.Err}
	commands := writeCommands(cmdutil.NewFactory(cmdutil.NewMatchVersionFlags(flags)), streams)
	for _, c := range commands {
		verb := c.Name()
		c.Short = fmt.Sprintf("kubectl %s, and tell how the server took each write: who, allowed by what, changed by "+
			"whom, refused where, stored when", verb)
		c.Long = c.Short + ".\n\nEvery flag of kubectl works, --dry-run=server too: then nothing is stored and all " +
			"else is told. Whoever may " + journal.ExplainVerb +
			" the resource besides writing it is told;\nvalues of Secrets are masked. With --story json one JSON " +
			"object is printed per write.\n"
		c.Example = requestTraceExamples(verb)
		flags.AddFlags(c.PersistentFlags())
		c.PersistentFlags().StringVar(&l.form, "story", "text",
			"how to tell: text, all (also plugins that did nothing), json")
		l.traceCommands(c, out)
	}
	return commands
}

// traceCommands is tell for a command and those below it: create has groups such as secret, which
// has commands.
func (l *requestTraceListener) traceCommands(c *cobra.Command, out cli.IO) {
	l.traceCommand(c, out)
	for _, each := range c.Commands() {
		l.traceCommands(each, out)
		if below := each.Commands(); each.Example == "" && len(below) > 0 {
			each.Example = below[0].Example // kubectl's groups have none
		}
	}
}

func requestTraceExamples(verb string) string {
	args := map[string]string{
		"apply": "-f pod.yaml", "create": "-f pod.yaml", "replace": "-f pod.yaml",
		"patch": `deployment web -p '{"spec":{"replicas":3}}'`, "delete": "pod web",
		"label": "pod web tier=front", "annotate": "pod web note=seen", "scale": "deployment web --replicas 3",
	}[verb]
	out := fmt.Sprintf("  gantry trace %s %s\n  gantry trace %s %s --dry-run=server --story all", verb, args, verb,
		args)
	if verb == "scale" || verb == "label" || verb == "annotate" {
		out = fmt.Sprintf("  gantry trace %s %s\n  gantry trace %s %s --story json", verb, args, verb, args)
	}
	return out
}

// refusal is how kubectl's end of a command comes back.
type refusal struct {
	text string
	code int
}

// traceCommand makes a command of kubectl return its error and print the traces last.
func (l *requestTraceListener) traceCommand(c *cobra.Command, out cli.IO) {
	run := c.Run
	if run == nil {
		return
	}
	c.Run = nil
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		if l.form != "text" && l.form != "all" && l.form != "json" {
			return cli.UsageError(fmt.Errorf("story %q: must be text, all or json", l.form))
		}
		cmdutil.BehaviorOnFatal(func(text string, code int) { panic(refusal{text, code}) })
		defer cmdutil.DefaultBehaviorOnFatal()
		defer func() {
			r := recover()
			end, ok := r.(refusal)
			if r != nil && !ok {
				panic(r)
			}
			if reported := l.write(out.Out); reported != nil {
				err = reported
			}
			if ok && err == nil {
				err = errors.New(strings.TrimPrefix(strings.TrimSpace(end.text), "error: "))
			}
		}()
		run(c, args)
		return nil
	}
}

// requestTraceListener asks for the trace of every write that passes and keeps the answers.
type requestTraceListener struct {
	form string

	mu       sync.Mutex
	traces   []journal.RequestTrace
	disabled bool // a write was answered without a trace: this is not Gantry's API server
}

func (l *requestTraceListener) wrap(next http.RoundTripper) http.RoundTripper {
	return requestTraceTransport{next, l}
}

type requestTraceTransport struct {
	next     http.RoundTripper
	listener *requestTraceListener
}

// RoundTrip implements http.RoundTripper.
func (t requestTraceTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet || req.Method == http.MethodHead {
		return t.next.RoundTrip(req)
	}
	req = req.Clone(req.Context())
	req.Header.Set(journal.ExplainHeader, "true")
	res, err := t.next.RoundTrip(req)
	if err == nil {
		t.listener.record(res)
	}
	return res, err
}

func (l *requestTraceListener) record(res *http.Response) {
	l.mu.Lock()
	defer l.mu.Unlock()
	header := res.Header.Get(journal.TraceHeader)
	if header == "" {
		l.disabled = true
		return
	}
	s, err := trace.DecodeRequestTrace(header)
	if err != nil {
		s = journal.RequestTrace{Code: res.StatusCode, Withheld: err.Error()}
	}
	if s.Code >= http.StatusBadRequest {
		raw, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		res.Body = io.NopCloser(bytes.NewReader(raw))
		var status metav1.Status
		if err == nil && json.Unmarshal(raw, &status) == nil && status.Message != "" {
			s.Refusal, s.Reason = status.Message, string(status.Reason)
		}
	}
	l.traces = append(l.traces, s)
}

func (l *requestTraceListener) write(w io.Writer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.traces {
		if l.form == "json" {
			if err := cli.WriteJSON(w, s); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintln(w)
		if err := trace.WriteRequestTrace(w, s, l.form == "all"); err != nil {
			return err
		}
	}
	if l.disabled {
		return cli.WithFix(errors.New("this API server tells nothing about its writes"),
			"the write itself went as printed above; the story needs Gantry's API server")
	}
	return nil
}
