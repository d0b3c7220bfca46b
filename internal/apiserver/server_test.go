package apiserver

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"

	"github.com/gantry-project/gantry/internal/apiserver/store"
)

func admin() user.Info { return &user.DefaultInfo{Name: "admin", Groups: []string{"system:masters"}} }

// start runs a whole server on a temporary directory and stops it with the test.
func start(t *testing.T, change ...func(*Config)) *Server {
	t.Helper()
	c := Config{Listen: Listen{Address: "127.0.0.1", Port: -1}, DataDir: t.TempDir(), Etcd: store.Options{NoFsync: true, Tick: 10 * time.Millisecond}}
	for _, f := range change {
		f(&c)
	}
	s, stop := launch(t, c)
	t.Cleanup(stop)
	return s
}

// launch starts a server and returns once it is ready; stop ends it and waits.
func launch(t *testing.T, c Config) (s *Server, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s, err := New(ctx, c)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Error("the server did not stop in 20 s")
		}
	}
	select {
	case <-s.Ready():
	case err := <-done:
		t.Fatalf("the server ended before it was ready: %v", err)
	case <-time.After(30 * time.Second):
		stop()
		t.Fatal("the server was not ready in 30 s")
	}
	return s, stop
}

func TestStart(t *testing.T) {
	begin := time.Now()
	s := start(t)
	t.Log("ready after", time.Since(begin))
	c := kubernetes.NewForConfigOrDie(s.InProcess(admin()))
	list, err := c.CoreV1().Namespaces().List(context.Background(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range list.Items {
		t.Log(ns.Name, ns.Status.Phase)
	}
}
