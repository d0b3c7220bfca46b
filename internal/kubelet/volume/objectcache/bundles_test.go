package objectcache_test

import (
	"crypto/sha256"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/gantry-project/gantry/internal/kubelet/volume/objectcache"
)

// block is a PEM block that stands for an authority.
func block(name string) string {
	sum := sha256.Sum256([]byte(name))
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: append([]byte(name), sum[:]...)}))
}

func bundle(name, signer string, labels map[string]string, text string) *certificatesv1.ClusterTrustBundle {
	return &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: text}}
}

func ptr[T any](v T) *T { return &v }

// KEP-3257: by name or by signer and labels, each authority once; what is missing holds the Pod up
// unless it is optional; readers are notified of changes.
func TestBundles(t *testing.T) {
	client := fake.NewClientset(
		bundle("a", "", nil, "text\n"+block("1")+block("2")+block("1")),
		bundle("s:x:1", "s/x", map[string]string{"v": "1"}, block("1")),
		bundle("s:x:2", "s/x", map[string]string{"v": "2"}, block("3")+block("1")),
	)
	notified := make(chan types.UID, 100)
	b := objectcache.NewBundles(t.Context(),
		objectcache.Deps{Client: client, Changed: func(uid types.UID) { notified <- uid }})
	for _, c := range []struct {
		name string
		p    v1.ClusterTrustBundleProjection
		want []string // blocks
		err  string
	}{
		{"name", v1.ClusterTrustBundleProjection{Name: ptr("a")}, []string{"1", "2"}, ""},
		{"no such", v1.ClusterTrustBundleProjection{Name: ptr("b")}, nil,
			`clustertrustbundle.certificates.k8s.io "b" not found`},
		{"no such, optional", v1.ClusterTrustBundleProjection{Name: ptr("b"), Optional: ptr(true)}, nil, ""},
		{"signer, all", v1.ClusterTrustBundleProjection{SignerName: ptr("s/x"), LabelSelector: &metav1.LabelSelector{}},
			[]string{"1", "3"}, ""},
		{"signer, some", v1.ClusterTrustBundleProjection{SignerName: ptr("s/x"),
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"v": "1"}}}, []string{"1"}, ""},
		{"signer, no selector", v1.ClusterTrustBundleProjection{SignerName: ptr("s/x")}, nil,
			"combination of signerName and labelSelector matched zero ClusterTrustBundles"},
		{"signer, none, optional", v1.ClusterTrustBundleProjection{SignerName: ptr("s/y"),
			LabelSelector: &metav1.LabelSelector{}, Optional: ptr(true)}, nil, ""},
	} {
		got, err := b.TrustAnchors(t.Context(), "uid", &c.p)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: got %v, want an error with %q (none if empty)", c.name, err, c.err)
			continue
		}
		if n := strings.Count(string(got), "BEGIN CERTIFICATE"); n != len(c.want) {
			t.Errorf("%s: %d blocks, want %q", c.name, n, c.want)
		}
		for _, name := range c.want {
			if !strings.Contains(string(got), block(name)) {
				t.Errorf("%s: %s is missing", c.name, name)
			}
		}
	}
	for len(notified) > 0 {
		<-notified
	}
	if _, err := client.CertificatesV1().ClusterTrustBundles().Create(t.Context(), bundle("b", "", nil, block("4")),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case uid := <-notified:
		if uid != "uid" {
			t.Errorf(`uid = %q, want "uid"`, uid)
		}
	case <-time.After(time.Minute):
		t.Fatal("a new bundle is not notified")
	}
	if got, err := b.TrustAnchors(t.Context(), "uid", &v1.ClusterTrustBundleProjection{Name: ptr("b")}); err != nil ||
		string(got) != block("4") {
		t.Errorf("got %s %v, want no error and %v", got, err, block("4"))
	}
}
