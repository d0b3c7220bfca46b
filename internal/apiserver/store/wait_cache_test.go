package store

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// startingCache is a watch cache that is filled after a while; a list and a watch say whether it
// was.
type startingCache struct {
	storage.Interface
	filledAt time.Time
}

var errNotFilled = errors.New("storage is (re)initializing")

func (c startingCache) Ready() bool { return !time.Now().Before(c.filledAt) }

func (c startingCache) Wait(ctx context.Context) error {
	select {
	case <-time.After(time.Until(c.filledAt)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c startingCache) GetList(context.Context, string, storage.ListOptions, runtime.Object) error {
	if !c.Ready() {
		return errNotFilled
	}
	return nil
}

func (c startingCache) Watch(ctx context.Context, key string, o storage.ListOptions) (watch.Interface, error) {
	return nil, c.GetList(ctx, key, o, nil)
}

// TestFirstReadersWaitForTheCache: a list and a watch of a kind whose cache is being filled get
// their answer when it is, upstream's refusal after a second, and wait no longer than they may.
func TestFirstReadersWaitForTheCache(t *testing.T) {
	for name, c := range map[string]struct {
		fill, patience, took time.Duration
		want                 error
	}{
		"filled":        {0, time.Minute, 0, nil},
		"being filled":  {300 * time.Millisecond, time.Minute, 300 * time.Millisecond, nil},
		"never filled":  {time.Hour, time.Minute, cacheStartWait, errNotFilled},
		"who gives up":  {time.Hour, 20 * time.Millisecond, 20 * time.Millisecond, errNotFilled},
		"refilled late": {cacheStartWait + time.Millisecond, time.Minute, cacheStartWait, errNotFilled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for what, ask := range map[string]func(context.Context, waitingStorage) error{
					"list": func(ctx context.Context, s waitingStorage) error {
						return s.GetList(ctx, "/", storage.ListOptions{}, nil)
					},
					"watch": func(ctx context.Context, s waitingStorage) error {
						_, err := s.Watch(ctx, "/", storage.ListOptions{})
						return err
					},
				} {
					cache := startingCache{filledAt: time.Now().Add(c.fill)}
					ctx, cancel := context.WithTimeout(t.Context(), c.patience)
					startedAt := time.Now()
					err := ask(ctx, waitingStorage{cache, cache})
					if took := time.Since(startedAt); !errors.Is(err, c.want) || took != c.took {
						t.Errorf("%s: got error %v after %v, want %v after %v", what, err, took, c.want, c.took)
					}
					cancel()
				}
			})
		})
	}
}
