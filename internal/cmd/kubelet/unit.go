package kubelet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gantry-project/gantry/internal/cli"
)

// unitText is a unit of systemd for a kubelet; %s is the command.
const unitText = `# One kubelet per node under systemd: /etc/systemd/system/kubelet.service, with the files of the
# release in /opt/gantry/bin.
# Pods and their containerd outlive the kubelet: KillMode=process ends nothing but it,
# and the next one takes them over.
[Unit]
Description=Gantry's kubelet
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
ExecStart=%s
Restart=always
RestartSec=1
KillMode=process
Delegate=yes
OOMScoreAdjust=-999
LimitNOFILE=1048576

[Install]
WantedBy=multi-user.target
`

// WithUnit lets the kubelet's command print its unit instead of running.
func WithUnit(io cli.IO, c *cobra.Command) *cobra.Command {
	show := c.Flags().Bool("print-unit", false,
		"print a unit of systemd that runs this program with the other flags, and end")
	first, run := c.PreRunE, c.RunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if *show || first == nil {
			return nil
		}
		return first(c, args)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		if !*show {
			return run(c, args)
		}
		program, err := ownProgram()
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(io.Out, unit(program, c.Flags()))
		return err
	}
	return c
}

// unit is the unit that starts this program with the flags that were given.
func unit(program string, flags *pflag.FlagSet) string {
	message := []string{program, "kubelet"}
	flags.Visit(func(f *pflag.Flag) {
		if f.Name == "print-unit" {
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			message = append(message, "--"+f.Name, strings.Join(list.GetSlice(), ","))
			return
		}
		switch value := f.Value.String(); f.Value.Type() {
		case "bool":
			message = append(message, "--"+f.Name+"="+value)
		case "stringToString", "mapStringString":
			message = append(message, "--"+f.Name, strings.Trim(value, "[]"))
		default:
			message = append(message, "--"+f.Name, value)
		}
	})
	for i, w := range message {
		message[i] = unitQuote(w)
	}
	return fmt.Sprintf(unitText, strings.Join(message, " "))
}

// unitQuote quotes a word of a command line as systemd reads it: % and $ stand for themselves when
// doubled. systemd.service(5)
func unitQuote(w string) string {
	w = strings.NewReplacer("%", "%%", "$", "$$").Replace(w)
	if w != "" && !strings.ContainsAny(w, " \t\n\"'\\;") {
		return w
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(w) + `"`
}

// ownProgram is the file of this program.
func ownProgram() (string, error) {
	p, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("where this program is: %w", err)
	}
	return filepath.EvalSymlinks(p)
}
