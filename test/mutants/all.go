package mutants

import (
	"context"
	"errors"
	"sync"
)

// RunAlone does what RunAll does, with a compilation for each mutation.
func (r Runner) RunAlone(ctx context.Context, ms []Mutation, parallel int, done func(Mutation, Result)) error {
	var mu sync.Mutex
	return each(ctx, ms, parallel, func(m Mutation) error {
		res, err := r.Run(ctx, m)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		done(m, res)
		return nil
	})
}

// each calls do for every item, so many at once as parallel says, begins with no further one when
// ctx has ended, and joins the errors.
func each[T any](ctx context.Context, items []T, parallel int, do func(T) error) error {
	work := make(chan T)
	var mu sync.Mutex
	var failed []error
	var wg sync.WaitGroup
	for range max(1, parallel) {
		wg.Go(func() {
			for item := range work {
				if err := do(item); err != nil {
					mu.Lock()
					failed = append(failed, err)
					mu.Unlock()
				}
			}
		})
	}
	for _, item := range items {
		if ctx.Err() != nil {
			break
		}
		work <- item
	}
	close(work)
	wg.Wait()
	return errors.Join(append(failed, ctx.Err())...)
}
