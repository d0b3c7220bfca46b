package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gantry-project/gantry/internal/apiserver/store"
	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/options"
)

// etcdCommand keeps the store in order: the embedded one, running or not, or an external one.
type etcdCommand struct {
	io      cli.IO
	dataDir string
	json    bool
	storage options.Storage
}

func New(io cli.IO) *cobra.Command {
	e := &etcdCommand{io: io}
	c := &cobra.Command{
		Use: "etcd", Short: "Save, restore, compact and defragment the store of the API server",
		Long: "etcd works on the store of the instance in DATA-DIR, whether it runs or not, or on external servers " +
			"named with --etcd-servers.",
		Example: "  sudo gantry etcd snapshot save /backup/monday.db\n  sudo gantry etcd snapshot restore " +
			"/backup/monday.db\n  sudo gantry etcd status\n" +
			"  sudo gantry etcd compact && sudo gantry etcd defrag",
	}
	f := c.PersistentFlags()
	f.StringVar(&e.dataDir, "data-dir", cli.DefaultDataDir, "directory of the instance")
	e.storage.EtcdFlags(f)
	c.AddCommand(e.snapshot(), e.status(), e.compact(), e.defrag(), e.upgrade())
	return c
}

// dir is where the instance keeps its embedded etcd.
func (e *etcdCommand) dir() string { return filepath.Join(e.dataDir, "etcd") }

// withStore runs do on the store.
func (e *etcdCommand) withStore(ctx context.Context, do func(*store.Store) error) error {
	if err := e.storage.Complete(); err != nil {
		return err
	}
	o := e.storage.Etcd
	o.Dir = e.dir()
	s, err := store.Attach(ctx, o)
	if err != nil {
		return e.explain(err)
	}
	defer s.Close()
	return e.explain(do(s))
}

// explain attaches the remedy that belongs to an error of the store.
func (e *etcdCommand) explain(err error) error {
	var missing *store.Missing
	var damaged *store.Damaged
	var used *store.InUse
	switch {
	case errors.As(err, &missing):
		return cli.WithFix(fmt.Errorf("there is no store in %s", missing.Dir),
			"name the instance's directory with --data-dir, or servers with --etcd-servers")
	case errors.As(err, &damaged):
		return cli.WithFix(err, "restore a snapshot: gantry etcd snapshot restore FILE --data-dir %s", e.dataDir)
	case errors.As(err, &used):
		return cli.WithFix(fmt.Errorf("gantry runs in %s", e.dataDir), "stop it first")
	}
	return err
}

func (e *etcdCommand) snapshot() *cobra.Command {
	c := &cobra.Command{Use: "snapshot", Short: "Save the store to a file, look at such a file, put it back",
		Example: "  sudo gantry etcd snapshot save /backup/monday.db"}
	save := &cobra.Command{
		Use: "save FILE", Short: "Write the whole store to a new file, while Gantry runs or not",
		Args: cli.ExactlyOne("the name of a new file"),
		Example: "  sudo gantry etcd snapshot save /backup/monday.db\n  gantry etcd snapshot save monday.db " +
			"--etcd-servers https://10.0.0.5:2379 --etcd-cafile ca.crt --etcd-certfile c.crt --etcd-keyfile c.key",
		RunE: func(c *cobra.Command, args []string) error {
			return e.withStore(c.Context(), func(s *store.Store) error {
				if err := s.Save(c.Context(), args[0]); err != nil {
					return err
				}
				return e.printSnapshot(args[0])
			})
		},
	}
	status := &cobra.Command{
		Use: "status FILE", Short: "Check a snapshot and say what is in it", Args: cli.ExactlyOne("a snapshot file"),
		Example: "  gantry etcd snapshot status /backup/monday.db --json",
		RunE:    func(_ *cobra.Command, args []string) error { return e.printSnapshot(args[0]) },
	}
	status.Flags().BoolVar(&e.json, "json", false, "print JSON")
	c.AddCommand(save, status, e.restore())
	return c
}

func (e *etcdCommand) restore() *cobra.Command {
	var skip bool
	c := &cobra.Command{
		Use: "restore FILE", Short: "Put a snapshot into the data directory; Gantry must not run",
		Args: cli.ExactlyOne("a snapshot file"),
		Long: "restore makes the state of a snapshot the state of the instance in DATA-DIR. Gantry must not run " +
			"there. The present store is kept beside the new one,\n" +
			"and nothing changes unless the snapshot is sound. Revisions jump ahead, so that every client lists " +
			"anew. Pods that run and are not in the\n" +
			"snapshot are stopped when Gantry starts. To restore an external etcd use etcdutl on its servers.",
		Example: "  sudo gantry etcd snapshot restore /backup/monday.db\n  sudo gantry etcd snapshot restore " +
			"/backup/monday.db --data-dir /tmp/two",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(e.storage.Etcd.Servers) > 0 {
				return cli.WithFix(errors.New("an external etcd cannot be restored from here"),
					"run etcdutl snapshot restore on each of its servers")
			}
			lock, err := options.LockDataDir(e.dataDir)
			if err != nil {
				return err
			}
			defer lock.Release()
			oldest, err := store.Restore(store.RestoreOptions{Snapshot: args[0], Dir: e.dir(), SkipHashCheck: skip,
				Now: time.Now()})
			if err != nil {
				return e.explain(err)
			}
			fmt.Fprintf(e.io.Out, "restored %s into %s\n", args[0], e.dir())
			if oldest != "" {
				fmt.Fprintf(e.io.Out, "the former store is kept in %s; remove it when all is well\n", oldest)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&skip, "skip-hash-check", false, "take a file without checksum, copied from a data directory")
	return c
}

func (e *etcdCommand) printSnapshot(path string) error {
	s, err := store.Inspect(path)
	if err != nil {
		return err
	}
	if e.json {
		return json.NewEncoder(e.io.Out).Encode(s)
	}
	fmt.Fprintf(e.io.Out, "%s: revision %d, %d keys, %s, hash %s, etcd %s\n", path, s.Revision, s.Keys,
		mebibytes(s.Size), s.Hash, s.Version)
	return nil
}

func (e *etcdCommand) status() *cobra.Command {
	c := &cobra.Command{
		Use: "status", Short: "Say how large the store is, which revision it has, whether it takes writes",
		Args: cobra.NoArgs, Example: "  sudo gantry etcd status\n  sudo gantry etcd status --json",
		RunE: func(c *cobra.Command, _ []string) error {
			return e.withStore(c.Context(), func(s *store.Store) error {
				members, err := s.Members(c.Context())
				if err != nil {
					return err
				}
				if e.json {
					return json.NewEncoder(e.io.Out).Encode(members)
				}
				w := tabwriter.NewWriter(e.io.Out, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "ENDPOINT\tVERSION\tREVISION\tSIZE\tIN USE\tQUOTA\tLEADER\tALARMS")
				for _, m := range members {
					fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%t\t%s\n", m.Endpoint, m.Version, m.Revision,
						mebibytes(m.Size), mebibytes(m.InUse), mebibytes(m.Quota), m.Leader,
						strings.Join(m.Alarms, ","))
				}
				return w.Flush()
			})
		},
	}
	c.Flags().BoolVar(&e.json, "json", false, "print JSON")
	return c
}

func (e *etcdCommand) compact() *cobra.Command {
	var revision int64
	c := &cobra.Command{
		Use: "compact", Short: "Forget the history before a revision, by default before now", Args: cobra.NoArgs,
		Long: "compact drops the earlier versions of all keys. The API server does so every 5 minutes by itself. " +
			"Watches that resume from before are told to list anew.",
		Example: "  sudo gantry etcd compact\n  sudo gantry etcd compact --revision 120000",
		RunE: func(c *cobra.Command, _ []string) error {
			return e.withStore(c.Context(), func(s *store.Store) error {
				at, err := s.Compact(c.Context(), revision)
				if err != nil {
					return err
				}
				fmt.Fprintf(e.io.Out, "history before revision %d is gone\n", at)
				return nil
			})
		},
	}
	c.Flags().Int64Var(&revision, "revision", 0, "revision to keep history from (default: the present one)")
	return c
}

func (e *etcdCommand) defrag() *cobra.Command {
	return &cobra.Command{
		Use: "defrag",
		Short: "Give unused space of the store back to the file system; ends a NOSPACE alarm when room " +
			"was made", Args: cobra.NoArgs,
		Long: "defrag rewrites the database file. Requests to the API wait meanwhile, about a second per GiB. Run " +
			"compact before it to make room.",
		Example: "  sudo gantry etcd compact && sudo gantry etcd defrag",
		RunE: func(c *cobra.Command, _ []string) error {
			return e.withStore(c.Context(), func(s *store.Store) error {
				before, err := s.Members(c.Context())
				if err != nil {
					return err
				}
				if err := s.Defragment(c.Context()); err != nil {
					return err
				}
				after, err := s.Members(c.Context())
				if err != nil {
					return err
				}
				for i, m := range after {
					fmt.Fprintf(e.io.Out, "%s: %s, was %s\n", m.Endpoint, mebibytes(m.Size), mebibytes(before[i].Size))
					if len(m.Alarms) > 0 {
						return cli.WithFix(fmt.Errorf("%s still refuses writes: %s", m.Endpoint,
							strings.Join(m.Alarms, ", ")),
							"delete objects, run `gantry etcd compact` and this again, or raise --quota-backend-bytes")
					}
				}
				return nil
			})
		},
	}
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
