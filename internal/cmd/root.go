package cmd

import (
	"context"
	"io"
	"path/filepath"
	"strings"

	"github.com/mitchellh/go-wordwrap"
	"github.com/spf13/cobra"

	"github.com/gantry-project/gantry/internal/app"
	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/cmd/clean"
	"github.com/gantry-project/gantry/internal/cmd/controllers"
	"github.com/gantry-project/gantry/internal/cmd/cri"
	"github.com/gantry-project/gantry/internal/cmd/csidriver"
	"github.com/gantry-project/gantry/internal/cmd/dashboard"
	"github.com/gantry-project/gantry/internal/cmd/dns"
	"github.com/gantry-project/gantry/internal/cmd/doctor"
	"github.com/gantry-project/gantry/internal/cmd/etcd"
	"github.com/gantry-project/gantry/internal/cmd/image"
	"github.com/gantry-project/gantry/internal/cmd/kubelet"
	"github.com/gantry-project/gantry/internal/cmd/lint"
	"github.com/gantry-project/gantry/internal/cmd/manifests"
	"github.com/gantry-project/gantry/internal/cmd/probes"
	"github.com/gantry-project/gantry/internal/cmd/proxy"
	"github.com/gantry-project/gantry/internal/cmd/scheduler"
	"github.com/gantry-project/gantry/internal/cmd/server"
	"github.com/gantry-project/gantry/internal/cmd/simulate"
	"github.com/gantry-project/gantry/internal/cmd/size"
	"github.com/gantry-project/gantry/internal/cmd/status"
	"github.com/gantry-project/gantry/internal/cmd/trace"
	"github.com/gantry-project/gantry/internal/cmd/up"
	"github.com/gantry-project/gantry/internal/cmd/version"
	"github.com/gantry-project/gantry/internal/cmd/why"
)

// commands are Gantry's subcommands; one row each, in the order of help.
func commands(io cli.IO) []*cobra.Command {
	return []*cobra.Command{
		up.New(io),
		server.New(io),
		kubelet.WithUnit(io, kubelet.New(io)),
		manifests.New(io),
		scheduler.New(io),
		controllers.New(io),
		proxy.New(io),
		dns.New(io),
		csidriver.New(io),
		why.New(io),
		trace.New(io),
		simulate.New(io),
		size.New(io),
		lint.New(io),
		probes.New(io),
		status.New(io),
		doctor.New(io),
		dashboard.New(io),
		image.New(io),
		cri.New(io),
		etcd.New(io),
		clean.New(io),
		version.New(io),
		program("kubectl", "Run kubectl, with the kubeconfig that `gantry up` wrote", "  gantry kubectl get pods -A"),
		program("containerd", "Run containerd, as `gantry up` does for itself", "  gantry containerd --version"),
	}
}

// program documents a program that lives in this binary; Main runs it before flags are read.
func program(name, short, example string) *cobra.Command {
	return &cobra.Command{Use: name + " [args]", Short: short, Example: example, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error { return nil }}
}

// Main runs the subcommand that argv names and returns the exit code. The binary is multi-call: a
// link named kubectl is kubectl.
func Main(ctx context.Context, argv []string, out, errOut io.Writer) int {
	if code, ok := otherProgram(argv); ok {
		return code
	}
	return cli.Execute(ctx, Root(cli.IO{Out: out, Err: errOut}), argv[1:], errOut)
}

// otherProgram runs the programs that live in this binary beside Gantry: containerd and kubectl.
func otherProgram(argv []string) (int, bool) {
	switch {
	case filepath.Base(argv[0]) == "kubectl":
		return app.RunKubectl(argv[1:]), true
	case len(argv) > 1 && argv[1] == "kubectl":
		return app.RunKubectl(argv[2:]), true
	case len(argv) > 1 && argv[1] == "containerd":
		return app.RunContainerd(argv[2:]), true
	}
	return 0, false
}

// helpColumns is how wide a text of help is at most.
const helpColumns = 100

// Root is the command tree. The paragraphs of its texts are wrapped.
func Root(io cli.IO) *cobra.Command {
	root := cli.Root(io, commands(io)...)
	wrapHelp(root)
	return root
}

func wrapHelp(c *cobra.Command) {
	c.Long = wrapText(c.Long)
	for _, sub := range c.Commands() {
		wrapHelp(sub)
	}
}

// wrapText wraps the lines of a text, each with those that go on its last sentence. Indented lines,
// such as examples, are left as they are.
func wrapText(text string) string {
	var out []string
	open := false // the last line is in the middle of a sentence
	for l := range strings.SplitSeq(text, "\n") {
		plain := l != "" && !strings.HasPrefix(l, " ")
		if plain && open {
			out[len(out)-1] += " " + l
		} else {
			out = append(out, l)
		}
		open = plain && !strings.HasSuffix(l, ".") && !strings.HasSuffix(l, ":")
	}
	for i, l := range out {
		if !strings.HasPrefix(l, " ") {
			out[i] = wordwrap.WrapString(l, helpColumns)
		}
	}
	return strings.Join(out, "\n")
}
