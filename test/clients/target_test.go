package clients

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gantry-project/gantry/test/expect"
	"github.com/gantry-project/gantry/test/images"
	"github.com/gantry-project/gantry/test/replay/instance"
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
	cfg, err := clientcmd.BuildConfigFromFlags("", upInstance(t).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// upInstance is gantryUp's instance, with further flags.
func upInstance(t *testing.T, flags ...string) *instance.Instance {
	t.Helper()
	dir := binDir(t)
	if _, err := os.Stat(filepath.Join(dir, "cni/gantry-cni")); err != nil || os.Geteuid() != 0 ||
		os.Getenv("GANTRY_NO_CONTAINERS") != "" {
		t.Skip("runs real containers: needs root and `make build`")
	}
	i, err := instance.New(instance.Options{Binary: filepath.Join(dir, "gantry"), BinDir: dir, NodeIP: "127.0.0.1",
		Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(i.Report())
		}
		if err := i.Remove(); err != nil {
			t.Error(err)
		}
	})
	at := filepath.Join(i.Dir, "images")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := images.Archive(filepath.Join(at, "busybox.tar"),
		images.Select(images.Standard(), "docker.io/library/busybox:1.37")); err != nil {
		t.Fatal(err)
	}
	if err := i.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := i.WaitAPI(ctx); err != nil {
		t.Fatal(err)
	}
	return i
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
