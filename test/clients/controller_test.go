package clients

import (
	"context"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/gantry-project/gantry/test/expect"
)

const (
	done  = "clients.example/done" // the controller's finalizer
	found = "clients.example/found"
)

// copier is a small controller: of every ConfigMap with the label copy it keeps a Secret, and says
// so in an annotation.
type copier struct{ client.Client }

// Reconcile implements reconcile.Reconciler.
func (r copier) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var m corev1.ConfigMap
	if err := r.Get(ctx, req.NamespacedName, &m); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if m.Labels["copy"] == "" {
		return ctrl.Result{}, nil
	}
	if m.DeletionTimestamp != nil {
		if controllerutil.RemoveFinalizer(&m, done) {
			return ctrl.Result{}, r.Update(ctx, &m)
		}
		return ctrl.Result{}, nil
	}
	if controllerutil.AddFinalizer(&m, done) {
		if err := r.Update(ctx, &m); err != nil {
			return ctrl.Result{}, err
		}
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}}
	how, err := controllerutil.CreateOrUpdate(ctx, r.Client, s, func() error {
		s.StringData = maps.Clone(m.Data)
		return controllerutil.SetControllerReference(&m, s, r.Scheme())
	})
	if err != nil || m.Annotations[found] == string(how) {
		return ctrl.Result{}, err
	}
	before := m.DeepCopy()
	metav1.SetMetaDataAnnotation(&m.ObjectMeta, found, string(how))
	return ctrl.Result{}, r.Patch(ctx, &m, client.MergeFrom(before))
}

// A controller made with controller-runtime runs: caches, leader election, owned objects,
// finalizers, patches.
func TestControllerRuntime(t *testing.T) {
	onEachCluster(t, func(t *testing.T, cfg *rest.Config) {
		c := space(t, cfg, "runtime")
		ctrl.SetLogger(klog.Background())
		m, err := ctrl.NewManager(cfg, ctrl.Options{
			Scheme: scheme.Scheme, Metrics: server.Options{BindAddress: "0"}, LeaderElection: true,
			LeaderElectionID: "copier", LeaderElectionNamespace: "runtime",
			LeaderElectionReleaseOnCancel: true, Controller: config.Controller{SkipNameValidation: new(true)},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(
			copier{m.GetClient()}); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Start(ctx) }()
		defer func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		maps, secrets := c.CoreV1().ConfigMaps("runtime"), c.CoreV1().Secrets("runtime")
		if _, err := maps.Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"copy": "yes"}},
				Data: map[string]string{"k": "one"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		holds := func(value string) func() bool {
			return func() bool {
				s, err := secrets.Get(ctx, "a", metav1.GetOptions{})
				return err == nil && string(s.Data["k"]) == value && len(s.OwnerReferences) == 1
			}
		}
		expect.Eventually(t, "the copy is made", holds("one"))
		if _, err := c.CoordinationV1().Leases("runtime").Get(ctx, "copier", metav1.GetOptions{}); err != nil {
			t.Errorf("the leader's lease: %v, want no error", err)
		}
		expect.Eventually(t, "the ConfigMap is changed", func() bool {
			m, err := maps.Get(ctx, "a", metav1.GetOptions{})
			if err != nil {
				return false
			}
			m.Data["k"] = "two"
			_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
			return err == nil
		})
		expect.Eventually(t, "the copy follows", holds("two"))
		if err := secrets.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		expect.Eventually(t, "the copy is made again", holds("two"))
		if err := maps.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		expect.Eventually(t, "the copy goes with its owner", func() bool {
			left, err := secrets.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=a"})
			return err == nil && len(left.Items) == 0
		})
	})
}
