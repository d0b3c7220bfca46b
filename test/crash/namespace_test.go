package crash

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/apiserver/store"
)

var (
	spaces       = flag.Int("namespaces", 6, "how many namespaces are filled and deleted")
	randomSource = flag.Uint64("seed", 0, "seed of the history of namespaces; 0 takes one from the clock")
)

// history is what is done to namespaces while servers and controllers are killed.
type history struct {
	t      *testing.T
	server *server

	mu     sync.Mutex
	client *kubernetes.Clientset
	ctrl   *exec.Cmd
}

func (h *history) now() *kubernetes.Clientset {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.client
}

// controllers starts `gantry controllers` beside the server.
func (h *history) controllers() {
	h.ctrl = exec.Command(h.server.bin, "controllers", "--kubeconfig", filepath.Join(h.server.dir, "kubeconfig"),
		"--leader-elect=false")
	if err := h.ctrl.Start(); err != nil {
		h.t.Fatal(err)
	}
}

func (h *history) killControllers() {
	_ = h.ctrl.Process.Kill()
	_ = h.ctrl.Wait()
}

// restart kills the server, or the controllers, or both, and starts them again.
func (h *history) restart(ctx context.Context, which int) {
	if which != 0 {
		h.killControllers()
	}
	if which != 1 {
		h.server.kill()
		h.server.start()
		c := h.server.client(ctx)
		h.mu.Lock()
		h.client = c
		h.mu.Unlock()
	}
	if which != 0 {
		h.controllers()
	}
}

// makers create one object each of a random kind.
var makers = []func(ctx context.Context, c *kubernetes.Clientset, ns string, m metav1.ObjectMeta) error{
	func(ctx context.Context, c *kubernetes.Clientset, ns string, m metav1.ObjectMeta) error {
		_, err := c.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: m}, metav1.CreateOptions{})
		return err
	},
	func(ctx context.Context, c *kubernetes.Clientset, ns string, m metav1.ObjectMeta) error {
		_, err := c.CoreV1().Secrets(ns).Create(ctx, &corev1.Secret{ObjectMeta: m}, metav1.CreateOptions{})
		return err
	},
	func(ctx context.Context, c *kubernetes.Clientset, ns string, m metav1.ObjectMeta) error {
		s := &corev1.Service{ObjectMeta: m, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		_, err := c.CoreV1().Services(ns).Create(ctx, s, metav1.CreateOptions{})
		return err
	},
	func(ctx context.Context, c *kubernetes.Clientset, ns string, m metav1.ObjectMeta) error {
		p := &corev1.Pod{ObjectMeta: m, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		_, err := c.CoreV1().Pods(ns).Create(ctx, p, metav1.CreateOptions{})
		return err
	},
	func(ctx context.Context, c *kubernetes.Clientset, ns string, m metav1.ObjectMeta) error {
		_, err := c.RbacV1().Roles(ns).Create(ctx, &rbacv1.Role{ObjectMeta: m}, metav1.CreateOptions{})
		return err
	},
}

// holder is the finalizer of what the test holds for a while.
const holder = "crash.test/held"

// live fills one namespace, deletes it and goes on creating: what is asked for after the deletion
// was acknowledged is refused, with 403 while the namespace is there, and 404 afterwards.
func (h *history) live(ctx context.Context, ns string, r *rand.Rand) {
	h.insist(ctx, func(c *kubernetes.Clientset) error {
		_, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}},
			metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
	create := func() error {
		m := metav1.ObjectMeta{GenerateName: "x-"}
		return makers[r.IntN(len(makers))](ctx, h.now(), ns, m)
	}
	for range 5 + r.IntN(20) {
		_ = create() // what a killed server refuses is not there
	}
	held := r.IntN(3)
	for i := range held {
		m := metav1.ObjectMeta{Name: fmt.Sprintf("held-%d", i), Finalizers: []string{holder}}
		// as above
		_, _ = h.now().CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: m}, metav1.CreateOptions{})
	}
	release := time.Duration(r.IntN(4000)) * time.Millisecond
	h.insist(ctx, func(c *kubernetes.Clientset) error {
		return c.CoreV1().Namespaces().Delete(ctx, ns, metav1.DeleteOptions{})
	})
	var letting sync.WaitGroup
	defer letting.Wait()
	letting.Go(func() {
		pause(ctx, release)
		for i := range held {
			h.insist(ctx, func(c *kubernetes.Clientset) error {
				_, err := c.CoreV1().ConfigMaps(ns).Patch(ctx, fmt.Sprintf("held-%d", i), types.MergePatchType,
					[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
				return err
			})
		}
	})
	for ctx.Err() == nil {
		err := create()
		switch {
		case err == nil:
			h.t.Errorf("%s took an object after its deletion was acknowledged", ns)
			return
		case apierrors.IsNotFound(err):
			h.insist(ctx, func(c *kubernetes.Clientset) error {
				list, err := c.CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
				if err == nil && len(list.Items) > 0 {
					h.t.Errorf("%s is gone before %s, which a finalizer holds", ns, list.Items[0].Name)
				}
				return err
			})
			return
		}
		if status, ok := err.(apierrors.APIStatus); ok && apierrors.HasStatusCause(err,
			corev1.NamespaceTerminatingCause) && status.Status().Code != 403 {
			h.t.Errorf("%s refuses with %d: %v", ns, status.Status().Code, err)
		}
		n, err := h.now().CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
		if err == nil && (n.DeletionTimestamp == nil || n.Status.Phase != corev1.NamespaceTerminating) {
			h.t.Errorf("%s is there and not Terminating: %+v", ns, n.Status)
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// insist asks until it is answered.
func (h *history) insist(ctx context.Context, ask func(*kubernetes.Clientset) error) {
	for ctx.Err() == nil {
		err := ask(h.now())
		if err == nil || apierrors.IsNotFound(err) {
			return
		}
		pause(ctx, 10*time.Millisecond)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Whatever was created in a namespace, and whoever was killed while it was deleted: in the end
// nothing of it is in etcd, and until then it is there, Terminating, and refuses creations with
// 403.
func TestNothingIsLeftOfADeletedNamespace(t *testing.T) {
	seed := *randomSource
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", seed)
	ctx, stop := context.WithTimeout(t.Context(), 4*time.Minute)
	defer stop()
	h := &history{t: t, server: newServer(t)}
	h.server.start()
	t.Cleanup(func() { h.server.kill() })
	h.client = h.server.client(ctx)
	h.controllers()
	t.Cleanup(func() { h.killControllers() })
	var group sync.WaitGroup
	for i := range *spaces {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		group.Go(func() {
			pause(ctx, time.Duration(r.IntN(4000))*time.Millisecond)
			h.live(ctx, fmt.Sprintf("short-%d", i), r)
		})
	}
	r := rand.New(rand.NewPCG(seed, 1<<32))
	for range *kills {
		pause(ctx, time.Duration(r.IntN(3000))*time.Millisecond)
		h.restart(ctx, r.IntN(3))
	}
	group.Wait()
	if ctx.Err() != nil {
		t.Fatal(h.server.proc.Explain(errors.New("the namespaces are not gone in time")))
	}
	h.server.kill()
	for _, key := range namespaceKeysInStore(t, h.server.dir) {
		t.Errorf("left in etcd: %s", key)
	}
}

// namespaceKeysInStore are the keys of namespaces of the test in the store of a server that does
// not run.
func namespaceKeysInStore(t *testing.T, dir string) (out []string) {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Dir: filepath.Join(dir, "etcd"), Tick: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	etcd, err := s.Client()
	if err != nil {
		t.Fatal(err)
	}
	got, err := etcd.Get(t.Context(), store.Prefix+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range got.Kvs {
		if strings.Contains(string(kv.Key), "/short-") {
			out = append(out, string(kv.Key))
		}
	}
	if len(got.Kvs) < 50 {
		t.Errorf("only %d keys were read", len(got.Kvs))
	}
	return out
}
