package auth_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/internal/apiserver/auth"
)

// watchConfigMaps follows ConfigMaps after a revision until it has received so many events, and
// goes on where it was when it is cut off. Revisions must rise.
func watchConfigMaps(ctx context.Context, c kubernetes.Interface, from string, events int) error {
	for last, received := uint64(0), 0; received < events; {
		w, err := c.CoreV1().ConfigMaps("default").Watch(ctx,
			metav1.ListOptions{ResourceVersion: from, LabelSelector: "crowd"})
		if err != nil {
			return err
		}
		for e := range w.ResultChan() {
			m, ok := e.Object.(*corev1.ConfigMap)
			if !ok || e.Type != watch.Added && e.Type != watch.Modified {
				return fmt.Errorf("after %d events: %s %v", received, e.Type, e.Object)
			}
			rv, err := strconv.ParseUint(m.ResourceVersion, 10, 64)
			if err != nil || rv <= last {
				return fmt.Errorf("after %d events: revision %q follows %d", received, m.ResourceVersion, last)
			}
			from, last = m.ResourceVersion, rv
			if received++; received == events {
				w.Stop()
				return nil
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d events: %w", received, events, ctx.Err())
		}
	}
	return nil
}

// Many watchers over few connections receive all writes, each once and in order, in JSON and in
// protobuf.
// row: API-11
func TestManyWatchersOverFewConnections(t *testing.T) {
	s := serve(t, auth.Options{})
	config := func() *rest.Config {
		return &rest.Config{
			Host: "https://" + s.Addr().String(), BearerToken: "admin-token", QPS: -1,
			// each has a connection of its own
			TLSClientConfig: rest.TLSClientConfig{CAFile: s.files.CA.Cert}, Dial: (&net.Dialer{}).DialContext,
		}
	}
	client := func(cfg *rest.Config) kubernetes.Interface {
		c, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	writer := client(config())
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	list, err := writer.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	const connections, each, writes = 6, 10, 100
	var wg sync.WaitGroup
	for n := range connections {
		cfg := config()
		if n%2 == 0 {
			cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
		}
		c := client(cfg)
		for range each {
			wg.Go(func() {
				if err := watchConfigMaps(ctx, c, list.ResourceVersion, 2*writes); err != nil {
					t.Error(err)
				}
			})
		}
	}
	maps := writer.CoreV1().ConfigMaps("default")
	for n := range writes {
		name := fmt.Sprintf("m-%d", n)
		if _, err := maps.Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"crowd": ""}}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := maps.Patch(ctx, name, types.MergePatchType, []byte(`{"data":{"a":"b"}}`),
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}
