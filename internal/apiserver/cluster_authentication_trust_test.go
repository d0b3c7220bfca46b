package apiserver

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
)

func authorityFile(t *testing.T, path string) string {
	t.Helper()
	pair, err := selfSignedCertificate(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	cert, _ := pair.CurrentCertKeyContent()
	if err := os.WriteFile(path, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	return string(cert)
}

// Aggregated servers and schedulers find in kube-system whom this server trusts, also after the
// file changed. The same server divides itself fairly.
func TestTrustIsPublished(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca.crt")
	want := authorityFile(t, path)
	c := testConfig(t.TempDir())
	c.Files.ClientCA = path
	c.PriorityAndFairness = true
	s, client, _ := startServer(t, c)
	has := func() string {
		m, err := client.CoreV1().ConfigMaps("kube-system").Get(t.Context(), "extension-apiserver-authentication",
			metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return m.Data["client-ca-file"]
	}
	if got := has(); got != want {
		t.Errorf("published %q, want %q", got, want)
	}
	want = authorityFile(t, path)
	for deadline := time.Now().Add(time.Minute); has() != want; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the new authority was not published")
		}
	}
	web, err := restclient.HTTPClientFor(s.InProcess(admin()))
	if err != nil {
		t.Fatal(err)
	}
	host := s.InProcess(admin()).Host
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	res, err := web.Get(host + "/api/v1/namespaces/default")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK || res.Header.Get("X-Kubernetes-Pf-Flowschema-Uid") == "" {
		t.Errorf("%d %v: no flow schema", res.StatusCode, res.Header)
	}
}

// Finalizers without a domain are refused for every kind, at creation and later.
func TestFinalizersNeedADomain(t *testing.T) {
	_, c := shared(t)
	ns := newNamespace(t, c)
	bad := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "bad", Finalizers: []string{"nope"}}}
	const want = `metadata.finalizers[0]: Invalid value: "nope": name is neither a standard finalizer name nor is it ` +
		`fully qualified`
	if _, err := c.CoreV1().ConfigMaps(ns).Create(t.Context(), bad, metav1.CreateOptions{}); !apierrors.IsInvalid(
		err) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want error Invalid and an error with %v", err, want)
	}
	bad.Finalizers = nil
	mustCreate[*corev1.ConfigMap](t)(c.CoreV1().ConfigMaps(ns).Create(t.Context(), bad, metav1.CreateOptions{}))
	_, err := c.CoreV1().ConfigMaps(ns).Patch(t.Context(), "bad", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":["nope"]}}`), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want error Invalid and an error with %v", err, want)
	}
}

// warningRecorder is a list of warnings.
type warningRecorder struct{ list []string }

// HandleWarningHeader implements rest.WarningHandler.
func (o *warningRecorder) HandleWarningHeader(_ int, _ string, text string) {
	o.list = append(o.list, text)
}

// An unchanged template causes no second warning.
func TestWarningsOfUpdates(t *testing.T) {
	s, all := shared(t)
	ns := newNamespace(t, all)
	cfg := s.InProcess(admin())
	warnings := &warningRecorder{}
	cfg.WarningHandler = warnings
	c := kubernetes.NewForConfigOrDie(cfg).AppsV1().Deployments(ns)
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{
				{Name: "c", Image: "i", Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "A", Value: "2"}}}}},
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Template: template}}
	for _, step := range []struct {
		name  string
		write func() error
		want  int
	}{
		{"created", func() error { _, err := c.Create(t.Context(), d, metav1.CreateOptions{}); return err }, 1},
		{"labelled", func() error {
			_, err := c.Patch(t.Context(), "d", types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`),
				metav1.PatchOptions{})
			return err
		}, 0},
		{"scaled", func() error {
			_, err := c.Patch(t.Context(), "d", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`),
				metav1.PatchOptions{})
			return err
		}, 1},
	} {
		warnings.list = nil
		if err := step.write(); err != nil {
			t.Fatal(err)
		}
		if len(warnings.list) != step.want {
			t.Errorf("%s: warnings %q, want %v", step.name, warnings.list, step.want)
		}
	}
}
