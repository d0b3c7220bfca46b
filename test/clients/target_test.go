package clients

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gantry-project/gantry/test/busybox"
	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/testcluster"
)

// onEachCluster plays a program against testcluster and against `gantry up`.
func onEachCluster(t *testing.T, play func(t *testing.T, cfg *rest.Config)) {
	t.Run("testcluster", func(t *testing.T) {
		c := testcluster.Start(t)
		c.On(testcluster.Match{Image: "busybox"}, testcluster.Script{Sh: "sleep 3600"})
		play(t, rest.CopyConfig(c.Config))
	})
	t.Run("gantry up", func(t *testing.T) { play(t, gantryUp(t)) })
}

// gantryUp starts the built Gantry with real containers, or skips.
func gantryUp(t *testing.T) *rest.Config {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", busybox.Up(t).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// space makes a namespace with its service account.
func space(t *testing.T, cfg *rest.Config, name string) kubernetes.Interface {
	t.Helper()
	c := kubernetes.NewForConfigOrDie(cfg)
	if _, err := c.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	expect.Eventually(t, "the service account", func() bool {
		_, err := c.CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	return c
}
