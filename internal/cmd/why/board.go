package why

import (
	"context"
	"errors"
	"fmt"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/explain"
	"github.com/gantry-project/gantry/internal/explain/gather"
	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/trace"
)

// writeBoard draws the scheduler's last attempt to place a Pod.
func writeBoard(ctx context.Context, e *cli.Inspector, arg string, a explain.Answer) error {
	name, err := cli.PodName(arg)
	if err != nil {
		return cli.UsageError(fmt.Errorf("the picture is of a Pod's scheduling: %w", err))
	}
	client, err := e.NewClient()
	if err != nil {
		return err
	}
	entries, err := gather.ReadJournal(ctx, client, e.Namespace, name)
	if err != nil {
		return err
	}
	var last *journal.Ruled
	if lives := trace.PodTraces(entries); len(lives) > 0 {
		for _, entry := range lives[len(lives)-1].Entries {
			if r, ok := entry.Fact.(journal.Ruled); ok {
				last = &r
			}
		}
	}
	if last == nil {
		return cli.WithFix(errors.New("the journal has no scheduling attempt of "+a.Subject),
			"ask without -o svg for the answer in words")
	}
	return trace.WriteBoardSVG(e.Out, a.Subject+" is "+a.State, *last)
}
