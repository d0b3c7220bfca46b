package noderole

import (
	"context"
	"time"

	"github.com/gantry-project/gantry/internal/cri"
)

// runtimeAgain is the pause before a runtime that was away is asked again.
const runtimeAgain = 100 * time.Millisecond

// handshake connects to the container runtime and sets e.client. A containerd of this process is
// waited for until ctx ends, as this process starts it again; another runtime for o.ConnectTimeout.
func (e *Engine) handshake(ctx context.Context, o cri.Options) error {
	dial := func() (err error) {
		e.Client, err = cri.Dial(ctx, o)
		return err
	}
	if e.Child == nil {
		return dial()
	}
	return e.whileAway(ctx, dial)
}

// whileAway asks again until the answer is another than that the runtime is away, or ctx ends. It
// says what it waits for, each cause once in a row.
func (e *Engine) whileAway(ctx context.Context, ask func() error) error {
	output := ""
	for {
		err := ask()
		if !cri.Away(err) || ctx.Err() != nil {
			return err
		}
		if text := err.Error(); text != output {
			output = text
			e.logf("waiting for the container runtime: %s", text)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(runtimeAgain):
		}
	}
}
