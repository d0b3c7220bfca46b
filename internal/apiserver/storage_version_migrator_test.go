package apiserver

import (
	"encoding/json"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/gantry-project/gantry/internal/control/storageversionmigrator"
)

// Objects that lie in etcd in an older form are written as the server writes now, and nothing else
// is touched.
func TestUpgradeOfStoredObjects(t *testing.T) {
	s, c, _ := startServer(t, testConfig(t.TempDir()))
	ns := newNamespace(t, c)
	etcd := mustCreate[*clientv3.Client](t)(s.Store().Client())
	raw := func(key string, obj any) {
		t.Helper()
		mustCreate[*clientv3.PutResponse](t)(etcd.Put(t.Context(), key,
			string(mustCreate[[]byte](t)(json.Marshal(obj)))))
	}
	old := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: ns, UID: "u-1"}, Data: map[string]string{"a": "b"}}
	raw("/registry/configmaps/"+ns+"/old", old)
	one := int32(1)
	pods := map[string]string{"app": "x"}
	web := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{Kind: "Deployment", APIVersion: "apps/v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: ns, UID: "u-2"}}
	web.Spec = appsv1.DeploymentSpec{Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: pods},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pods}, Spec: pod("x").Spec}}
	raw("/registry/deployments/"+ns+"/web", web)
	mustCreate[*corev1.ConfigMap](t)(c.CoreV1().ConfigMaps(ns).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{}))
	eventually(t, "the server has seen what was put into its store", func() bool {
		_, err := c.CoreV1().ConfigMaps(ns).Get(t.Context(), "old", metav1.GetOptions{})
		return err == nil
	})
	form := func(key string) (string, int64) {
		t.Helper()
		kv := mustCreate[*clientv3.GetResponse](t)(etcd.Get(t.Context(), key)).Kvs[0]
		return storageversionmigrator.StorageForm(kv.Value), kv.ModRevision
	}
	_, untouched := form("/registry/configmaps/" + ns + "/new")
	u := &storageversionmigrator.Migrator{Etcd: etcd, Discovery: c.Discovery(),
		Objects: dynamic.NewForConfigOrDie(s.InProcess(admin())), Prefix: KeyPrefix, DryRun: true}
	for _, run := range []struct {
		dry     bool
		written int
		form    string
	}{{true, 0, "JSON v1"}, {false, 2, "protobuf v1"}, {false, 0, "protobuf v1"}} {
		u.DryRun = run.dry
		written := 0
		for _, r := range mustCreate[[]storageversionmigrator.Report](t)(u.Run(t.Context())) {
			if written += r.Written; r.Failed > 0 || !r.Done {
				t.Errorf("got %+v, want Failed at most 0 and Done true", r)
			}
		}
		if got, _ := form("/registry/configmaps/" + ns + "/old"); got != run.form || written != run.written {
			t.Errorf("dry %t: stored as %s, %d written; want %s, %d", run.dry, got, written, run.form, run.written)
		}
	}
	if got, _ := form("/registry/deployments/" + ns + "/web"); !strings.HasPrefix(got, "protobuf") {
		t.Errorf("the Deployment is stored as %s", got)
	}
	if _, now := form("/registry/configmaps/" + ns + "/new"); now != untouched {
		t.Errorf("an object in the present form was written anew, at revision %d, want %v", now, untouched)
	}
	if m := mustCreate[*corev1.ConfigMap](t)(c.CoreV1().ConfigMaps(ns).Get(t.Context(),
		"old", metav1.GetOptions{})); m.Data["a"] != "b" || m.UID != "u-1" {
		t.Errorf("afterwards %+v", m)
	}
}
