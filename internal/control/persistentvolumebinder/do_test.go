package persistentvolumebinder

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/record"

	"github.com/gantry-project/gantry/internal/control/controllerruntime"
	"github.com/gantry-project/gantry/internal/journal"
)

// A class that becomes the default one is given to the claims that wait for one, and to no others.
func TestANewDefaultClassIsGivenToClaimsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		waits := claim(func(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil })
		named := claim(func(c *v1.PersistentVolumeClaim) { c.Name = "named" })
		client := fake.NewClientset(waits, named)
		shared := informers.NewSharedInformerFactory(client, 0)
		r := New(controllerruntime.ControllerContext{Client: client, Informers: shared,
			Recorder: record.NewFakeRecorder(99), Journal: journal.Discard{}})
		shared.Start(ctx.Done())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		classOf := func(name string) string {
			time.Sleep(time.Minute)
			synctest.Wait()
			c, err := client.CoreV1().PersistentVolumeClaims("ns").Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if c.Spec.StorageClassName == nil {
				return ""
			}
			return *c.Spec.StorageClassName
		}
		if got := classOf("data"); got != "" {
			t.Errorf("got class %q, want none as long as there is none", got)
		}
		c := class("example.com/p", storagev1.VolumeBindingImmediate)
		c.Name, c.Annotations = "fast", map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
		if _, err := client.StorageV1().StorageClasses().Create(ctx, c, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := classOf("data"); got != "fast" {
			t.Errorf("got class %q, want the new default class", got)
		}
		if got := classOf("named"); got != "c" {
			t.Errorf("got class %q of a claim that names its own, want c", got)
		}
		cancel()
		<-done
	})
}
