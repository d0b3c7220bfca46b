// Command gantry is Kubernetes' Pod machinery in one binary; see internal/cmd for its subcommands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/gantry-project/gantry/internal/cmd"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(cmd.Main(ctx, os.Args, os.Stdout, os.Stderr))
}
