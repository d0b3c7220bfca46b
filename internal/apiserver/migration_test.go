package apiserver

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	migrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	migrationclient "k8s.io/client-go/kubernetes/typed/storagemigration/v1"

	"github.com/gantry-project/gantry/internal/control/storageversionmigrator"
)

func migration(name, group, resource string) *migrationv1.StorageVersionMigration {
	m := &migrationv1.StorageVersionMigration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	m.Spec.Resource = metav1.GroupResource{Group: group, Resource: resource}
	return m
}

func migrated(t *testing.T, c kubernetes.Interface, name string) (m *migrationv1.StorageVersionMigration) {
	t.Helper()
	eventually(t, "the end of migration "+name, func() bool {
		var err error
		m, err = c.StoragemigrationV1().StorageVersionMigrations().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return meta.IsStatusConditionTrue(m.Status.Conditions, "Succeeded") || meta.IsStatusConditionTrue(
			m.Status.Conditions, "Failed")
	})
	return m
}

// A migration writes one resource anew and leaves others alone; its conditions say how it went, and
// can not be taken back.
func TestStorageVersionMigration(t *testing.T) {
	s, c, _ := startServer(t, testConfig(t.TempDir()))
	ns := newNamespace(t, c)
	etcd := mustCreate[*clientv3.Client](t)(s.Store().Client())
	for kind, obj := range map[string]any{
		"configmaps": &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: ns, UID: "u-1"}},
		"secrets": &corev1.Secret{TypeMeta: metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: ns, UID: "u-2"}},
	} {
		mustCreate[*clientv3.PutResponse](t)(etcd.Put(t.Context(), "/registry/"+kind+"/"+ns+"/old",
			string(mustCreate[[]byte](t)(json.Marshal(obj)))))
	}
	eventually(t, "the server has seen what was put into its store", func() bool {
		_, err := c.CoreV1().ConfigMaps(ns).Get(t.Context(), "old", metav1.GetOptions{})
		return err == nil
	})
	form := func(kind string) string {
		t.Helper()
		return storageversionmigrator.StorageForm(
			mustCreate[*clientv3.GetResponse](t)(etcd.Get(t.Context(), "/registry/"+kind+"/"+ns+"/old")).Kvs[0].Value)
	}
	migrations := c.StoragemigrationV1().StorageVersionMigrations()
	mustCreate[*migrationv1.StorageVersionMigration](t)(migrations.Create(t.Context(),
		migration("maps", "", "configmaps"), metav1.CreateOptions{}))
	m := migrated(t, c, "maps")
	done, ran := meta.FindStatusCondition(m.Status.Conditions, "Succeeded"),
		meta.FindStatusCondition(m.Status.Conditions, "Running")
	if done == nil || ran == nil || done.Reason != "StorageVersionMigrationSucceeded" ||
		ran.Status != metav1.ConditionFalse || ran.Reason != "StorageVersionMigrationInProgress" ||
		m.Status.ResourceVersion == "" {
		t.Errorf(`got %+v, want Reason "StorageVersionMigrationSucceeded", Status ConditionFalse, Reason `+
			`"StorageVersionMigrationInProgress" and ResourceVersion other than empty`, m.Status)
	}
	if got := form("configmaps"); got != "protobuf v1" {
		t.Errorf("stored as %s, want \"protobuf v1\"", got)
	}
	if got := form("secrets"); got != "JSON v1" {
		t.Errorf("a resource nobody asked for is stored as %s, want \"JSON v1\"", got)
	}
	checkEndedMigrationIsImmutable(t, migrations, m)
}

// checkEndedMigrationIsImmutable makes writes of a migration that has ended which must not be
// taken.
func checkEndedMigrationIsImmutable(t *testing.T, migrations migrationclient.StorageVersionMigrationInterface,
	m *migrationv1.StorageVersionMigration) {
	t.Helper()
	for want, change := range map[string]func(*migrationv1.StorageVersionMigration){
		"Success condition cannot be set to false once it is true": func(m *migrationv1.StorageVersionMigration) {
			m.Status.Conditions = nil
		},
		"status.resourceVersion: Invalid value: \"7\": field is immutable": func(
			m *migrationv1.StorageVersionMigration) {
			m.Status.ResourceVersion = "7"
		},
		"Both success and failed conditions cannot be true at the same time": func(
			m *migrationv1.StorageVersionMigration) {
			meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{Type: "Failed", Status: "True", Reason: "X"})
		},
	} {
		bad := m.DeepCopy()
		change(bad)
		if _, err := migrations.UpdateStatus(t.Context(), bad, metav1.UpdateOptions{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	bad := m.DeepCopy()
	bad.Spec.Resource.Resource = "pods"
	if _, err := migrations.Update(t.Context(), bad, metav1.UpdateOptions{}); err == nil ||
		!strings.Contains(err.Error(),
			`spec: Invalid value: {"resource":{"group":"","resource":"pods"}}: field is immutable`) {
		t.Errorf(`got %v, want an error with 'spec: Invalid value: {"resource":{"group":"","resource…'`, err)
	}
}

// A new first key reaches what is stored by a migration; what a server that ended left unfinished,
// the next one goes on with.
func TestMigrationToAnotherKey(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "encryption.yaml")
	keys := func(names ...string) {
		t.Helper()
		text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: [{resources: " +
			"[secrets], providers: [{aescbc: {keys: ["
		for _, n := range names {
			text += "{name: " + n + ", secret: " + map[string]string{
				"one": "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=",
				"two": "MjIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI="}[n] + "},"
		}
		if err := os.WriteFile(file, []byte(text+"]}}]}]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := testConfig(filepath.Join(dir, "data"))
	config.Encryption.File = file
	keys("one")
	_, c, stop := startServer(t, config)
	for _, name := range []string{"a", "b"} {
		mustCreate[*corev1.Secret](t)(c.CoreV1().Secrets("default").Create(t.Context(),
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"k": name}},
			metav1.CreateOptions{}))
	}
	stop()
	keys("two", "one")
	s, c, stop := startServer(t, config)
	form := func(s *Server) string {
		t.Helper()
		etcd := mustCreate[*clientv3.Client](t)(s.Store().Client())
		defer etcd.Close()
		return storageversionmigrator.StorageForm(
			mustCreate[*clientv3.GetResponse](t)(etcd.Get(t.Context(), "/registry/secrets/default/a")).Kvs[0].Value)
	}
	if got := form(s); got != "encrypted by aescbc:v1:one" {
		t.Fatalf("before: %s, want \"encrypted by aescbc:v1:one\"", got)
	}
	migrations := c.StoragemigrationV1().StorageVersionMigrations()
	mustCreate[*migrationv1.StorageVersionMigration](t)(migrations.Create(t.Context(),
		migration("unknown", "example.com", "cups"), metav1.CreateOptions{}))
	mustCreate[*migrationv1.StorageVersionMigration](t)(migrations.Create(t.Context(), migration("keys", "", "secrets"),
		metav1.CreateOptions{}))
	if m := migrated(t, c, "keys"); !meta.IsStatusConditionTrue(m.Status.Conditions, "Succeeded") {
		t.Errorf("got %+v, want IsStatusConditionTrue true", m.Status)
	}
	if got := form(s); got != "encrypted by aescbc:v1:two" {
		t.Errorf("afterwards: %s, want \"encrypted by aescbc:v1:two\"", got)
	}
	stop()
	keys("two") // the old key is not needed any more
	_, c, _ = startServer(t, config)
	if got := mustCreate[*corev1.Secret](t)(c.CoreV1().Secrets("default").Get(t.Context(),
		"b", metav1.GetOptions{})); string(got.Data["k"]) != "b" {
		t.Errorf("got %v, want Data[k] b", got.Data)
	}
	if m := mustCreate[*migrationv1.StorageVersionMigration](t)(c.StoragemigrationV1().StorageVersionMigrations().Get(
		t.Context(), "unknown", metav1.GetOptions{})); time.Since(m.CreationTimestamp.Time) < time.Minute &&
		len(m.Status.Conditions) > 0 {
		t.Errorf("a resource that may still come: %+v", m.Status)
	}
}
