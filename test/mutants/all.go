package mutants

import (
	"context"
	"errors"
	"sync"
)

// RunAll runs mutations, so many at once as parallel says, and calls done after each, one call at a
// time. It returns when all have ended; the error joins those of single mutations.
func (r Runner) RunAll(ctx context.Context, ms []Mutation, parallel int, done func(Mutation, Result)) error {
	work := make(chan Mutation)
	var mu sync.Mutex
	var failed []error
	var wg sync.WaitGroup
	for range max(1, parallel) {
		wg.Go(func() {
			for m := range work {
				res, err := r.Run(ctx, m)
				mu.Lock()
				if err != nil {
					failed = append(failed, err)
				} else {
					done(m, res)
				}
				mu.Unlock()
			}
		})
	}
	for _, m := range ms {
		if ctx.Err() != nil {
			break
		}
		work <- m
	}
	close(work)
	wg.Wait()
	return errors.Join(append(failed, ctx.Err())...)
}
