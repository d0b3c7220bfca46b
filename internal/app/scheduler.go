package app

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/journal"
)

func runScheduler(ctx context.Context, cfg *rest.Config, config string, sink journal.Sink) error {
	<-ctx.Done()
	return nil
}
