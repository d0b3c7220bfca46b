package clients

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// getter gives Helm its clients.
type getter struct {
	cfg       *rest.Config
	namespace string
	cache     discovery.CachedDiscoveryInterface
}

func (g *getter) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(g.cfg), nil }

func (g *getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) { return g.cache, nil }

func (g *getter) ToRESTMapper() (meta.RESTMapper, error) {
	return restmapper.NewDeferredDiscoveryRESTMapper(g.cache), nil
}

func (g *getter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	return clientcmd.NewDefaultClientConfig(clientcmdapi.Config{},
		&clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: g.namespace}})
}

// Helm installs a chart with a definition, an object of it and a hook, waits for it, upgrades it,
// rolls it back and takes it away.
func TestHelm(t *testing.T) {
	onEachCluster(t, func(t *testing.T, cfg *rest.Config) {
		const ns, name = "helm", "shop"
		cfg = rest.CopyConfig(cfg)
		cfg.ContentType, cfg.AcceptContentTypes = "", ""
		cfg.WarningHandler = rest.NoWarnings{}
		c := space(t, cfg, ns)
		hc := action.NewConfiguration(action.ConfigurationSetLogger(slog.NewTextHandler(io.Discard, nil)))
		if err := hc.Init(&getter{cfg, ns, memory.NewMemCacheClient(discovery.NewDiscoveryClientForConfigOrDie(cfg))},
			ns, "secret"); err != nil {
			t.Fatal(err)
		}
		chart, err := loader.LoadDir("testdata/web")
		if err != nil {
			t.Fatal(err)
		}
		shops := dynamic.NewForConfigOrDie(cfg).Resource(schema.GroupVersionResource{Group: "example.com",
			Version: "v1", Resource: "shops"}).Namespace(ns)
		check := func(when, size string, replicas int32) {
			t.Helper()
			d, err := c.AppsV1().Deployments(ns).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil || *d.Spec.Replicas != replicas || d.Status.ReadyReplicas != replicas {
				t.Fatalf("%s: deployment %+v, %v", when, d.Status, err)
			}
			s, err := shops.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatalf("%s: got error %v, want none", when, err)
			}
			if spec := s.Object["spec"].(map[string]any); spec["size"] != size || spec["open"] != true {
				t.Errorf("%s: got %v, want spec[size] %v and spec[open] true", when, spec, size)
			}
		}
		install := action.NewInstall(hc)
		install.ReleaseName, install.Namespace, install.WaitStrategy, install.Timeout = name, ns,
			kube.StatusWatcherStrategy, time.Minute
		if _, err := install.Run(chart, nil); err != nil {
			t.Fatal(err)
		}
		check("installed", "small", 1)
		upgrade := action.NewUpgrade(hc)
		upgrade.Namespace, upgrade.WaitStrategy, upgrade.Timeout = ns, kube.StatusWatcherStrategy, time.Minute
		if _, err := upgrade.Run(name, chart, map[string]any{"replicas": 2, "size": "large"}); err != nil {
			t.Fatal(err)
		}
		check("upgraded", "large", 2)
		if _, err := upgrade.Run(name, chart, map[string]any{"size": "huge"}); err == nil {
			t.Error("a size that the schema does not know was taken")
		}
		back := action.NewRollback(hc)
		back.Version, back.WaitStrategy, back.Timeout = 1, kube.StatusWatcherStrategy, time.Minute
		if err := back.Run(name); err != nil {
			t.Fatal(err)
		}
		check("rolled back", "small", 1)
		away := action.NewUninstall(hc)
		away.WaitStrategy, away.Timeout = kube.StatusWatcherStrategy, time.Minute
		if _, err := away.Run(name); err != nil {
			t.Fatal(err)
		}
		if _, err := c.AppsV1().Deployments(ns).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(
			err) {
			t.Errorf("the Deployment: %v", err)
		}
	})
}
