package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/test/instance"
)

// profile writes a CPU profile of an instance to NAME.pprof, if the flag asks for it; the returned
// function waits for the file. Errors are printed, the figures stay valid.
func (b *bench) profile(ctx context.Context, i *instance.Instance, name string, lasting time.Duration) func() {
	if b.profiles == "" {
		return func() {}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := keepProfile(ctx, i, lasting, filepath.Join(b.profiles, name+".pprof")); err != nil {
			fmt.Fprintln(os.Stderr, "bench: profile:", err)
		}
	})
	return wg.Wait
}

func keepProfile(ctx context.Context, i *instance.Instance, lasting time.Duration, file string) error {
	cfg, err := i.Admin(ctx)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return err
	}
	url := fmt.Sprintf("%s/debug/pprof/profile?seconds=%.0f", cfg.Host, lasting.Seconds())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the instance answers %s", res.Status)
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, res.Body); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}
