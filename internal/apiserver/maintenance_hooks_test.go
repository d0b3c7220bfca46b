package apiserver

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A bootstrap token goes when it has run out, and signs cluster-info as long as it is there.
func TestBootstrapTokensRunOut(t *testing.T) {
	_, c := shared(t)
	secrets, maps := c.CoreV1().Secrets("kube-system"), c.CoreV1().ConfigMaps("kube-public")
	mustCreate[*corev1.ConfigMap](t)(maps.Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cluster-info"},
			Data: map[string]string{"kubeconfig": "x"}}, metav1.CreateOptions{}))
	mustCreate[*corev1.Secret](t)(secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef",
			"usage-bootstrap-signing": "true",
			"expiration":              time.Now().Add(2 * time.Second).UTC().Format(time.RFC3339)},
	}, metav1.CreateOptions{}))
	eventually(t, "the token signs or has run out", func() bool {
		m, err := maps.Get(t.Context(), "cluster-info", metav1.GetOptions{})
		_, gone := secrets.Get(t.Context(), "bootstrap-token-abcdef", metav1.GetOptions{})
		return err == nil && m.Data["jws-kubeconfig-abcdef"] != "" || apierrors.IsNotFound(gone)
	})
	eventually(t, "the token is gone, and its signature too", func() bool {
		_, err := secrets.Get(t.Context(), "bootstrap-token-abcdef", metav1.GetOptions{})
		m, got := maps.Get(t.Context(), "cluster-info", metav1.GetOptions{})
		return apierrors.IsNotFound(err) && got == nil && m.Data["jws-kubeconfig-abcdef"] == ""
	})
}
