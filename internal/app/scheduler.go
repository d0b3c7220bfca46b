package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	rbacv1 "k8s.io/api/rbac/v1"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/options"
	"github.com/gantry-project/gantry/internal/scheduler/config"
	"github.com/gantry-project/gantry/internal/scheduler/plugins/coscheduling"
	"github.com/gantry-project/gantry/internal/scheduler/server"
)

// ClientOfConfig reaches the API server that a configuration file names in
// clientConnection.kubeconfig.
func ClientOfConfig(file string) (*rest.Config, error) {
	cfg, err := server.ReadConfig(file)
	if err != nil {
		return nil, cli.WithFix(err, cli.ConfigFix)
	}
	if cfg.ClientConnection.Kubeconfig == "" {
		return nil, cli.UsageError(
			errors.New(`gantry scheduler wants --kubeconfig, or --config with clientConnection.kubeconfig; see ` +
				`"gantry scheduler --help"`))

	}
	client, _, err := cli.RestConfig(cfg.ClientConnection.Kubeconfig)
	return client, err
}

// SchedulerShare is how much a scheduler in its own process may grow between collections, in
// percent of what it needs: most of what it reads is garbage a moment later, and a larger share
// spends less time on collecting. GOGC in the environment overrules it.
const SchedulerShare = 300

// schedule runs the scheduler of `gantry up`: every node is scored unless a file says otherwise,
// and nobody else schedules.
func (u *Up) schedule(ctx context.Context, c runningCluster) error {
	cfg, err := server.ReadConfig(u.Node.schedulerConfig)
	if err != nil {
		return cli.WithFix(err, cli.ConfigFix)
	}
	if u.Node.schedulerConfig == "" {
		cfg.PercentageOfNodesToScore = new(int32(100))
	}
	cfg.LeaderElection.LeaderElect = new(false)
	if enables(cfg, coscheduling.Name) {
		admin := c.server.InProcess(&user.DefaultInfo{Name: "gantry", Groups: []string{user.SystemPrivilegedGroup}})
		if err := servePodGroups(ctx, admin); err != nil {
			return fmt.Errorf("PodGroups for the plugin %s: %w", coscheduling.Name, err)
		}
	}
	o := server.Options{KubeConfig: c.server.InProcess(schedulerUser()), Config: cfg, NoLeaderElection: true,
		Journal: c.log.SinkFor("scheduler", ""), ShadowCheck: u.Node.shadowCheck,
		Features: u.Instance.APIServer.Gates.Features}
	if o.Record, err = u.Node.record.OpenFile(); err != nil {
		return err
	}
	defer u.Node.record.Stop()
	if u.Node.schedulerPort != 0 {
		if o.Serving, err = u.schedulerListen(c); err != nil {
			return err
		}
	}
	if o.Serving != nil {
		options.RecordPartAddress(u.Instance.DataDir, options.SchedulerPart, o.Serving.Listener.Addr().String())
	} else {
		options.RecordPartAddress(u.Instance.DataDir, options.SchedulerPart, "")
	}
	return server.Run(ctx, o)
}

// schedulerListen is where the scheduler of `gantry up` serves. A default port that another cluster
// on this machine has is no reason not to start.
func (u *Up) schedulerListen(c runningCluster) (*server.ServingOptions, error) {
	ca, err := os.ReadFile(c.files.CA.Cert)
	if err != nil {
		return nil, err
	}
	at := net.JoinHostPort("127.0.0.1", strconv.Itoa(u.Node.schedulerPort))
	l, err := net.Listen("tcp", at)
	if err != nil {
		fix := "choose another port with --scheduler-port, or 0 for none"
		if u.Node.schedulerPort != server.Port {
			return nil, cli.WithFix(fmt.Errorf("scheduler: health and metrics: %w", err), "%s", fix)
		}
		klog.Background().Info("The scheduler's health and metrics are not served: the port is taken", "address", at,
			"fix", fix)
		return nil, nil
	}
	return &server.ServingOptions{Address: at, Listener: l, ClientCA: ca}, nil
}

// enables tells whether any profile uses a plugin.
func enables(cfg *schedulerconfig.KubeSchedulerConfiguration, plugin string) bool {
	for _, p := range cfg.Profiles {
		sets := []schedulerconfig.PluginSet{p.Plugins.MultiPoint}
		for _, point := range config.ExtensionPoints {
			sets = append(sets, *point.Of(p.Plugins))
		}
		for _, s := range sets {
			for _, e := range s.Enabled {
				if e.Name == plugin {
					return true
				}
			}
		}
	}
	return false
}

// servePodGroups defines PodGroup and lets the scheduler read them; what is there already stays as
// it is.
func servePodGroups(ctx context.Context, cfg *rest.Config) error {
	crd := &v1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(coscheduling.CRD, crd); err != nil {
		return err
	}
	definitions, err := extensions.NewForConfig(cfg)
	if err != nil {
		return err
	}
	if _, err := definitions.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, crd,
		metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	const name = "gantry:scheduler:podgroups"
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{coscheduling.PodGroups.Group}, Resources: []string{coscheduling.PodGroups.Resource},
		Verbs: []string{"get", "list", "watch"},
	}, {
		APIGroups: []string{coscheduling.PodGroups.Group},
		Resources: []string{coscheduling.PodGroups.Resource + "/status"}, Verbs: []string{"patch"},
	}}}
	_, err = client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) { // perhaps from before the scheduler kept their status
		_, err = client.RbacV1().ClusterRoles().Update(ctx, role, metav1.UpdateOptions{})
	}
	if err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user.KubeScheduler}}}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}
