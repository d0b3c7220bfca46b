package bootstrap

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func token(id string, data map[string]string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretPrefix + id, Namespace: "kube-system"},
		Type: corev1.SecretTypeBootstrapToken, Data: map[string][]byte{"token-id": []byte(id),
			"token-secret": []byte("0123456789abcdef")}}
	for k, v := range data {
		s.Data[k] = []byte(v)
	}
	return s
}

func TestDecide(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	signs := map[string]string{"usage-bootstrap-signing": "true"}
	secrets := []*corev1.Secret{
		token("gone00", map[string]string{"expiration": "2026-01-02T03:04:05Z", "usage-bootstrap-signing": "true"}),
		token("odd000", map[string]string{"expiration": "tomorrow"}),
		token("soon00", map[string]string{"expiration": "2026-01-02T03:04:15Z"}), token("signs0", signs),
		token("silent", nil),
	}
	info := &corev1.ConfigMap{Data: map[string]string{kubeconfigKey: "text", signaturePrefix + "former": "x"}}
	p, err := Decide(secrets, info, now)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Expired) != 2 || p.Expired[0].Name != "bootstrap-token-gone00" ||
		p.Expired[1].Name != "bootstrap-token-odd000" || p.NextExpiry != 10*time.Second {
		t.Errorf("got %+v, want 2 in Expired, Name bootstrap-token-gone00, Name bootstrap-token-odd000 and "+
			"NextExpiry %v", p, 10*time.Second)
	}
	s := p.ClusterInfo.Data[signaturePrefix+"signs0"]
	parts := strings.Split(s, "..")
	if len(p.ClusterInfo.Data) != 2 || len(parts) != 2 {
		t.Fatalf("signatures: %v", p.ClusterInfo.Data)
	}
	// Reckoned with openssl: printf '%s.%s' HEADER CONTENT | openssl dgst -sha256 -hmac
	// 0123456789abcdef
	if header, err := base64.RawURLEncoding.DecodeString(parts[0]); err != nil ||
		string(header) != `{"alg":"HS256","kid":"signs0"}` {
		t.Errorf("header %s, %v", header, err)
	}
	if parts[1] != "bIfD_cqgvTB3rWNR7bPXp2Uesgp7GQDW1xgu3wrYxpA" {
		t.Errorf("signature %s", parts[1])
	}
	if again, _ := Decide(secrets[3:], p.ClusterInfo, now); again.ClusterInfo != nil {
		t.Error("what is signed is signed again")
	}
	if none, _ := Decide(secrets, nil, now); none.ClusterInfo != nil {
		t.Error("cluster-info was made up")
	}
}
