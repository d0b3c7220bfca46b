package why

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/test/instance"
)

// Cluster is a control plane with nodes that are only objects, or `gantry up` with its one real
// node.
type Cluster struct {
	*instance.Instance
	f        Fixture
	client   kubernetes.Interface
	dynamic  dynamic.Interface
	mapper   meta.RESTMapper
	cancel   context.CancelFunc
	finished sync.WaitGroup

	mu           sync.Mutex
	unresponsive map[string]bool // nodes whose heartbeat stopped
	slowNodes    map[string]bool // nodes that use up a Pod's grace
	unreadyNodes map[string]bool // Pods that are not ready
	podPhases    map[string]corev1.PodPhase
	registries   *registries // of a fixture with a real node
}

// Open starts a cluster for a fixture.
func Open(ctx context.Context, binary string, number int, f Fixture) (*Cluster, error) {
	i, err := instance.New(instance.Options{Binary: binary, Split: !f.real(), Number: number, NodeIP: "127.0.0.1"})
	if err != nil {
		return nil, err
	}
	w := &Cluster{Instance: i, f: f, unresponsive: map[string]bool{}, slowNodes: map[string]bool{},
		unreadyNodes: map[string]bool{}, podPhases: map[string]corev1.PodPhase{}}
	if err := w.open(ctx); err != nil {
		return nil, errors.Join(err, i.Remove())
	}
	return w, nil
}

func (w *Cluster) open(ctx context.Context) error {
	if w.f.real() {
		if err := w.startKubelet(); err != nil {
			return err
		}
	}
	if err := w.Start(); err != nil {
		return err
	}
	up, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	if err := w.WaitAPI(up); err != nil {
		return err
	}
	cfg, err := w.Admin(up)
	if err != nil {
		return err
	}
	if w.client, err = kubernetes.NewForConfig(cfg); err != nil {
		return err
	}
	if w.dynamic, err = dynamic.NewForConfig(cfg); err != nil {
		return err
	}
	d, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return err
	}
	cached := memory.NewMemCacheClient(d)
	w.mapper = restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	if err := w.writeScheduler(w.f.Config.Scheduler); err != nil {
		return err
	}
	if w.needsGroups() {
		if out, errs, code := w.kubectlStdin(up, podGroupCRD, "apply", "-f", "-"); code != 0 {
			return fmt.Errorf("PodGroup definition: %s%s", out, errs)
		}
	}
	if !w.f.real() {
		if err := w.fakeNodes(ctx); err != nil {
			return err
		}
	}
	return instance.Poll(up, 20*time.Millisecond, func() error {
		_, err := w.client.CoreV1().ServiceAccounts("default").Get(up, "default", metav1.GetOptions{})
		return err
	})
}

// fakeNodes starts the components beside the API server, and the fake of the nodes.
func (w *Cluster) fakeNodes(ctx context.Context) error {
	for _, role := range []string{"scheduler", "controllers"} {
		if err := w.StartRole(role); err != nil {
			return err
		}
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	w.cancel = stop
	w.finished.Go(func() { w.renewNodes(run) })
	return nil
}

func (w *Cluster) needsGroups() bool {
	for _, m := range w.f.Manifests {
		if m["kind"] == "PodGroup" {
			return true
		}
	}
	return false
}

func (w *Cluster) writeScheduler(c map[string]any) error {
	path := filepath.Join(w.Dir, "scheduler.yaml")
	if c == nil {
		w.SchedulerConfig("")
		return nil
	}
	raw, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	w.SchedulerConfig(path)
	return os.WriteFile(path, raw, 0o600)
}

// Close ends everything.
func (w *Cluster) Close() error {
	if w.cancel != nil {
		w.cancel()
		w.finished.Wait()
	}
	var err error
	if w.registries != nil {
		err = w.registries.close()
	}
	return errors.Join(err, w.Remove())
}

// kubectlStdin runs kubectl with a text on its standard input.
func (w *Cluster) kubectlStdin(ctx context.Context, in string, args ...string) (stdout, stderr string, code int) {
	file := filepath.Join(w.Dir, "stdin.yaml")
	if err := os.WriteFile(file, []byte(in), 0o600); err != nil {
		return "", err.Error(), -1
	}
	for i, a := range args {
		if a == "-" {
			args[i] = file
		}
	}
	return w.Kubectl(ctx, args...)
}

func (w *Cluster) kubectl(ctx context.Context, args ...string) error {
	out, errs, code := w.Kubectl(ctx, args...)
	if code != 0 {
		return fmt.Errorf("kubectl %s: %s%s", strings.Join(args, " "), out, errs)
	}
	return nil
}

const podGroupCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: podgroups.scheduling.x-k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"}
spec:
  group: scheduling.x-k8s.io
  names: {kind: PodGroup, listKind: PodGroupList, plural: podgroups, singular: podgroup, shortNames: [pg, pgs]}
  scope: Namespaced
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: scheduler-podgroups}
rules:
- {apiGroups: [scheduling.x-k8s.io], resources: [podgroups, podgroups/status], verbs: [get, list, watch, patch, update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: scheduler-podgroups}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: scheduler-podgroups}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:kube-scheduler"}
`
