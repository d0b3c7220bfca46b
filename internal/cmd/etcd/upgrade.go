package etcd

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/apiserver"
	"github.com/gantry-project/gantry/internal/apiserver/store"
	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/control/storageversionmigrator"
)

func (e *etcdCommand) upgrade() *cobra.Command {
	kubeconfig, dry := "", false
	c := &cobra.Command{
		Use: "upgrade", Short: "Have objects that are stored in an older form written anew", Args: cobra.NoArgs,
		Long: "upgrade finds objects that are stored in a form the API server no longer writes: JSON instead of " +
			"protobuf, an older version of the kind, another\n" +
			"encryption key or none. The running API server writes each of them anew; no other object is touched. " +
			"Run it after an upgrade, after changing a\n" +
			"CustomResourceDefinition's storage version, and after putting a new key first in the encryption " +
			"configuration, before the old key is removed.\n" +
			"It may be broken off and run again at any time: what was written is not written twice. With --dry-run " +
			"it only counts.",
		Example: "  sudo gantry etcd upgrade --dry-run\n  sudo gantry etcd upgrade\n  gantry etcd upgrade " +
			"--etcd-servers https://10.0.0.5:2379 --etcd-cafile ca.crt --etcd-certfile c.crt --etcd-keyfile c.key " +
			"--kubeconfig admin.conf",
		RunE: func(c *cobra.Command, _ []string) error {
			if kubeconfig == "" {
				kubeconfig = cli.KubeconfigIn(e.dataDir)
			}
			cfg, _, err := cli.RestConfig(kubeconfig)
			if err != nil {
				return err
			}
			cfg.QPS = -1
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return e.withStore(ctx, func(s *store.Store) error {
				u, done, err := e.upgrader(s, cfg)
				if err != nil {
					return err
				}
				defer done()
				u.DryRun = dry
				reports, err := u.Run(ctx)
				if reported := e.printUpgrade(reports, dry); reported != nil {
					return reported
				}
				if err != nil {
					return cli.WithFix(err,
						"see that the API server runs and the user may list and patch everything, then run it again: "+
							"it goes on where it was")
				}
				if slices.ContainsFunc(reports, func(r storageversionmigrator.Report) bool { return r.Failed > 0 }) {
					return cli.WithFix(errors.New("some objects could not be written"),
						"correct or delete those named above, then run it again")
				}
				return nil
			})
		},
	}
	c.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of an administrator (default: DATA-DIR/kubeconfig)")
	c.Flags().BoolVar(&dry, "dry-run", false, "only count how objects are stored")
	c.Flags().BoolVar(&e.json, "json", false, "print JSON")
	return c
}

func (e *etcdCommand) upgrader(s *store.Store, cfg *rest.Config) (*storageversionmigrator.Migrator, func(), error) {
	if s.Embedded() {
		return nil, nil, cli.WithFix(fmt.Errorf("no API server runs in %s", e.dataDir),
			"start it: the API server writes the objects")
	}
	etcd, err := s.Client()
	if err != nil {
		return nil, nil, err
	}
	done := func() { _ = etcd.Close() } // nothing is lost with it
	known, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		done()
		return nil, nil, err
	}
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		done()
		return nil, nil, err
	}
	u := &storageversionmigrator.Migrator{Etcd: etcd, Discovery: known, Objects: objects, Prefix: apiserver.KeyPrefix}
	u.OnProgress = func(r storageversionmigrator.Report) {
		if !r.Done {
			fmt.Fprintf(e.io.Err, "%s: %d looked at, %d written anew\n", r.Resource, r.Objects, r.Written)
		}
	}
	return u, done, nil
}

func (e *etcdCommand) printUpgrade(reports []storageversionmigrator.Report, dry bool) error {
	if e.json {
		return cli.WriteJSON(e.io.Out, reports)
	}
	w := tabwriter.NewWriter(e.io.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RESOURCE\tOBJECTS\tWRITTEN ANEW\tSTORED AS")
	written := 0
	for _, r := range reports {
		var forms []string
		for _, f := range slices.Sorted(maps.Keys(r.Forms)) {
			forms = append(forms, fmt.Sprintf("%d %s", r.Forms[f], f))
		}
		written += r.Written
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", r.Resource, r.Objects, r.Written, strings.Join(forms, ", "))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, r := range reports {
		for _, p := range r.Problems {
			fmt.Fprintf(e.io.Out, "%s %s\n", r.Resource, p)
		}
	}
	if !dry {
		fmt.Fprintf(e.io.Out, "%d objects written anew\n", written)
	}
	return nil
}
