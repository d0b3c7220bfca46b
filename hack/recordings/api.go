package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/gantry-project/gantry/test/replay"
	"github.com/gantry-project/gantry/test/replay/api"
)

// runAPI replays test/recordings/api, one case after the other: they share names on purpose.
func runAPI(ctx context.Context, o options) (*replay.Report, error) {
	prelude, families, err := api.Load(filepath.Join(o.recordings, "api"))
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "gantry-recordings-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	begin := startServer
	if o.other.server != "" {
		begin = func(ctx context.Context, dir string) (*server, error) { return startReference(ctx, dir, o.other) }
	}
	s, err := begin(ctx, dir)
	if err != nil {
		return nil, err
	}
	report := &replay.Report{}
	err = replayAPI(ctx, o, s, prelude, families, report)
	if stopErr := s.stop(); err == nil {
		err = stopErr
	}
	return report, err
}

func replayAPI(ctx context.Context, o options, s *server, prelude []api.Request, families []api.Family,
	report *replay.Report) error {
	prepareCtx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := api.Prepare(prepareCtx, s.Server, prelude); err != nil {
		return err
	}
	for _, f := range families {
		if f.Name == "protocol/list" || f.Name == "protocol/watch" {
			if err := compact(ctx, s.client); err != nil {
				return err
			}
		}
		for _, c := range f.Cases {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if !o.only.MatchString(f.Name + "/" + c.Name) {
				continue
			}
			r := api.Run(ctx, s.Server, f.Name, c)
			report.Add(f.Name, r.Level == api.Same, r.Level >= api.SameReason)
			if r.Level != api.Same {
				report.Explain(replay.Unequal{Name: f.Name + "/" + c.Name, Near: r.Level >= api.SameReason, Err: r.Err,
					Differences: r.Differences})
			}
		}
		fmt.Fprintf(os.Stderr, "%-40s %s\n", f.Name, report.Line(f.Name))
	}
	return nil
}

// compact compacts the store's history, as it was before the recorded list and watch cases.
func compact(ctx context.Context, etcd func() (*clientv3.Client, error)) error {
	client, err := etcd()
	if err != nil {
		return err
	}
	now, err := client.Get(ctx, "compact_rev_key")
	if err != nil {
		return err
	}
	if _, err := client.Compact(ctx, now.Header.Revision); err != nil && !strings.Contains(err.Error(),
		"has been compacted") {
		return fmt.Errorf("compact the store: %w", err)
	}
	return nil
}
