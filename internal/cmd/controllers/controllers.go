package controllers

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	clientelection "k8s.io/client-go/tools/leaderelection"

	"github.com/gantry-project/gantry/internal/app"
	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/leaderelection"
	electionconfig "github.com/gantry-project/gantry/internal/leaderelection/config"
	"github.com/gantry-project/gantry/internal/options"
	"github.com/gantry-project/gantry/internal/pki"
)

// leaseName is the Lease of those that may run the controllers; upstream's.
const leaseName = "kube-controller-manager"

func New(io cli.IO) *cobra.Command {
	r := &cli.Role{}
	ca, signer, net, services := "", pki.Pair{}, options.PodNetwork{}, ""
	balancers, port, hpa := app.LoadBalancerFlag{}, app.ControllersPort{}, options.HorizontalPodAutoscaling{}
	election := leaderelection.Flags{}
	nodes, tokens, gates := options.NodeLifecycle{}, options.ServiceAccountTokens{}, options.FeatureGates{}
	volumes := options.Volumes{}
	c := r.Command(&cobra.Command{
		Use: "controllers", Short: "Run the controllers alone, against a Kubernetes API server",
		Example: "  gantry controllers --kubeconfig /var/lib/gantry/controllers.kubeconfig --root-ca-file " +
			"/var/lib/gantry/pki/ca.crt",
	}, func(ctx context.Context, cfg *rest.Config) error {
		if err := errors.Join(net.Check(), hpa.Check(), nodes.Check(), tokens.Check(),
			gates.CompleteGates(), electionconfig.Validate(&election.Config,
				field.NewPath("leaderElection")).ToAggregate()); err != nil {
			return err
		}
		if election.Config.LeaderElect {
			port.Lease = clientelection.NewLeaderHealthzAdaptor(leaderelection.HealthTimeout)
		}
		ctx, cancel := context.WithCancel(ctx)
		stopped, err := port.Serve(ctx, cfg)
		if err != nil {
			cancel()
			return err
		}
		defer func() { cancel(); <-stopped }()
		return leaderelection.Run(ctx, leaderelection.Options{KubeConfig: cfg, Config: election.Config,
			Name: leaseName, Health: port.Lease}, func(ctx context.Context) error {
			sink, stop, err := app.NewRemoteJournal(ctx, cfg, app.JournalSource{Component: "controllers"})
			if err != nil {
				return err
			}
			defer stop()
			return app.RunControllers(ctx, app.ControllersOptions{Config: cfg, ConfigFor: app.TokenConfig(cfg),
				CAFile: ca,
				Signer: signer, Ranges: net.Ranges(services), Journal: sink, Without: balancers.Without(),
				HorizontalPodAutoscaling: &hpa.HorizontalPodAutoscaling, TokenKeyFile: tokens.KeyFile,
				NodeMonitorGracePeriod: nodes.MonitorGracePeriod, TokenCleanUpPeriod: tokens.CleanUpPeriod,
				PodGroups: gates.GenericWorkload,
				Volumes:   volumes.Config(gates.Features)})
		})
	})
	election.Add(c.Flags(), leaseName)
	balancers.Flags(c.Flags())
	port.Flags(c.Flags())
	hpa.Flags(c.Flags())
	nodes.Flags(c.Flags())
	volumes.Flags(c.Flags())
	tokens.Flags(c.Flags())
	tokens.KeyFlag(c.Flags())
	gates.GateFlag(c.Flags())
	net.ClusterFlags(c.Flags())
	c.Flags().StringVar(&services, "service-cluster-ip-range", "", "addresses of Services, which no node's Pods get")
	c.Flags().StringVar(&signer.Cert, "cluster-signing-cert-file", "",
		"certificate authority that signs certificate requests (default: none is signed)")
	c.Flags().StringVar(&signer.Key, "cluster-signing-key-file", "", "its key")
	c.Flags().StringVar(&ca, "root-ca-file", "",
		"certificate authority of the API server, published to every namespace (default: the kubeconfig's)")
	return c
}
