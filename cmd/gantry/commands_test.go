package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/cmd"
)

var rewrite = flag.Bool("rewrite", false, "rewrite docs/user/commands.md from the commands")

const commandsPath = "../../docs/user/commands.md"

// TestCommandsPage compares docs/user/commands.md with the commands, their flags and examples.
func TestCommandsPage(t *testing.T) {
	t.Setenv("HOME", "/root")
	t.Setenv("KUBECONFIG", "")
	got := commandsPage(cmd.Root(cli.IO{Out: io.Discard, Err: io.Discard}))
	if *rewrite {
		if err := os.WriteFile(commandsPath, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(commandsPath)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got other commands than docs/user/commands.md has: run `make stories` and commit what it writes")
	}
}

// commandsPage renders every command that help shows, by name.
func commandsPage(root *cobra.Command) []byte {
	var b bytes.Buffer
	b.WriteString("# Commands\n\nRendered from the commands by `make stories`. `gantry COMMAND --help` says the " +
		"same.\n\n")
	b.WriteString("| Command | What it does |\n| --- | --- |\n")
	for _, c := range root.Commands() {
		if !c.Hidden {
			anchor := strings.ReplaceAll(c.CommandPath(), " ", "-")
			fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", c.CommandPath(), anchor, cell(c.Short))
		}
	}
	for _, c := range root.Commands() {
		writeCommand(&b, c, 2)
	}
	return b.Bytes()
}

func writeCommand(b *bytes.Buffer, c *cobra.Command, level int) {
	if c.Hidden {
		return
	}
	text := c.Long
	if text == "" {
		text = c.Short
	}
	fmt.Fprintf(b, "\n%s %s\n\n%s\n", strings.Repeat("#", level), c.CommandPath(), fenced(strings.TrimSpace(text)))
	fmt.Fprintf(b, "\n```console\n$ %s\n```\n", c.UseLine())
	if c.Example != "" {
		fmt.Fprintf(b, "\nFor example:\n\n```sh\n%s\n```\n", unindented(c.Example))
	}
	var flags []*pflag.Flag
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			flags = append(flags, f)
		}
	})
	if len(flags) > 0 {
		b.WriteString("\n| Flag | Default | Meaning |\n| --- | --- | --- |\n")
	}
	for _, f := range flags {
		name, usage := pflag.UnquoteUsage(f)
		if strings.Contains(name, " ") { // a command in backquotes, not the name of a value
			name, usage = f.Value.Type(), f.Usage
		}
		long := "`--" + strings.TrimSpace(f.Name+" "+name) + "`"
		if f.Shorthand != "" {
			long = "`-" + f.Shorthand + "`, " + long
		}
		preset := ""
		if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false" {
			preset = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", cell(long), cell(preset), cell(usage))
	}
	var ofKubectl []*cobra.Command
	for _, sub := range c.Commands() {
		if c.CommandPath() == "gantry trace" && sub.Name() != "packet" {
			ofKubectl = append(ofKubectl, sub)
		} else {
			writeCommand(b, sub, level+1)
		}
	}
	if len(ofKubectl) == 0 {
		return
	}
	b.WriteString("\nThese take kubectl's arguments and flags, write as kubectl does, and trace the write:\n")
	b.WriteString("\n| Command | What it does |\n| --- | --- |\n")
	for _, sub := range ofKubectl {
		fmt.Fprintf(b, "| `%s` | %s |\n", sub.CommandPath(), cell(sub.Short))
	}
}

// cell is text within a row of a table.
func cell(s string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(s)), " ")
}

// fenced puts indented lines, such as lists, between fences.
func fenced(text string) string {
	var out []string
	in := false
	for l := range strings.SplitSeq(text, "\n") {
		if indented := strings.HasPrefix(l, "  "); indented != in && (in || l != "") {
			out = append(out, "```")
			if indented {
				out[len(out)-1] = "```text"
			}
			in = indented
		}
		out = append(out, l)
	}
	if in {
		out = append(out, "```")
	}
	return strings.Join(out, "\n")
}

// unindented takes two blanks away from each line.
func unindented(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, "  ")
	}
	return strings.Join(lines, "\n")
}
