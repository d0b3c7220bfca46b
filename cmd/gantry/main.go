// Command gantry is Kubernetes' Pod machinery in one binary; see internal/app for its subcommands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/gantry-project/gantry/internal/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(app.Main(ctx, os.Args, os.Stdout, os.Stderr))
}
