package record_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/image"
	"github.com/gantry-project/gantry/internal/kubelet/image/record"
)

const id = "sha256:1234"

func secret(uid, password string) image.Credential {
	return image.Credential{
		Auth: &runtimeapi.AuthConfig{Username: "u", Password: password},
		From: image.Origin{Name: "ns/" + uid, Secret: &kubelet.ImagePullSecret{UID: uid, Namespace: "ns", Name: uid}},
	}
}

func open(t *testing.T, dir string, p record.Policy) *record.Book {
	t.Helper()
	b, err := record.Open(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func pull(t *testing.T, b *record.Book, name string, used *image.Credential) {
	t.Helper()
	if err := b.Begin(name); err != nil {
		t.Fatal(err)
	}
	if err := b.End(name, id, used); err != nil {
		t.Fatal(err)
	}
}

func may(t *testing.T, b *record.Book, name string, has ...image.Credential) bool {
	return b.MayUse(t.Context(), name, id, func() []image.Credential { return has })
}

func TestWhoMayUseAnImage(t *testing.T) {
	a, other := secret("a", "1"), secret("b", "2")
	account := image.Credential{Auth: &runtimeapi.AuthConfig{}, From: image.Origin{ServiceAccount: &kubelet.ImagePullServiceAccount{UID: "s", Namespace: "ns", Name: "sa"}}}
	preloaded := kubelet.NeverVerifyPreloadedImages
	for _, x := range []struct {
		name   string
		policy record.Policy
		used   *image.Credential
		pulled bool
		ask    string
		has    []image.Credential
		want   bool
	}{
		{"preloaded", record.Policy{Verify: preloaded}, nil, false, "r.test/app:1", nil, true},
		{"preloaded, always", record.Policy{Verify: kubelet.AlwaysVerify}, nil, false, "r.test/app:1", nil, false},
		{"preloaded, allowed", record.Policy{Verify: kubelet.NeverVerifyAllowlistedImages, Allow: []string{"r.test/*"}}, nil, false, "r.test/app:1", nil, true},
		{"preloaded, allowed by name", record.Policy{Verify: kubelet.NeverVerifyAllowlistedImages, Allow: []string{"r.test/app"}}, nil, false, "r.test/app:1", nil, true},
		{"preloaded, not allowed", record.Policy{Verify: kubelet.NeverVerifyAllowlistedImages, Allow: []string{"r.tes/*", "r.test/ap"}}, nil, false, "r.test/app:1", nil, false},
		{"without credentials", record.Policy{Verify: preloaded}, nil, true, "r.test/app:1", nil, true},
		{"without credentials, other name", record.Policy{Verify: preloaded}, nil, true, "r.test/other:1", nil, false},
		{"without credentials, other tag", record.Policy{Verify: preloaded}, nil, true, "r.test/app:2", nil, true},
		{"secret, none", record.Policy{Verify: preloaded}, &a, true, "r.test/app:1", nil, false},
		{"secret, never verified", record.Policy{Verify: kubelet.NeverVerify}, &a, true, "r.test/app:1", nil, true},
		{"secret, same", record.Policy{Verify: preloaded}, &a, true, "r.test/app:1", []image.Credential{other, a}, true},
		{"secret, other", record.Policy{Verify: preloaded}, &a, true, "r.test/app:1", []image.Credential{other}, false},
		{"secret, same with new content", record.Policy{Verify: preloaded}, &a, true, "r.test/app:1", []image.Credential{secret("a", "3")}, true},
		{"secret, other with same content", record.Policy{Verify: preloaded}, &a, true, "r.test/app:1", []image.Credential{secret("c", "1")}, true},
		{"account, same", record.Policy{Verify: preloaded}, &account, true, "r.test/app:1", []image.Credential{account}, true},
		{"account, a secret", record.Policy{Verify: preloaded}, &account, true, "r.test/app:1", []image.Credential{a}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			dir := t.TempDir()
			b := open(t, dir, x.policy)
			if x.pulled {
				pull(t, b, "r.test/app:1", x.used)
			}
			if got := may(t, open(t, dir, x.policy), x.ask, x.has...); got != x.want {
				t.Errorf("%v, want %v", got, x.want)
			}
		})
	}
}

func TestASecondSecretOpensTheImageToo(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, record.Policy{Verify: kubelet.NeverVerifyPreloadedImages})
	a, twin := secret("a", "1"), secret("twin", "1")
	pull(t, b, "r.test/app:1", &a)
	if !may(t, b, "r.test/app:1", twin) {
		t.Fatal("same content is refused")
	}
	if !may(t, b, "r.test/app:1", secret("twin", "new")) {
		t.Error("the secret that was let in is forgotten")
	}
}

type found map[string]string

func (f found) ImageStatus(_ context.Context, s *runtimeapi.ImageSpec, _ bool) (*runtimeapi.ImageStatusResponse, error) {
	if f[s.Image] == "" {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: f[s.Image]}}, nil
}

func TestPullCutOffByTheEndOfTheKubelet(t *testing.T) {
	dir := t.TempDir()
	policy := record.Policy{Verify: kubelet.NeverVerifyPreloadedImages}
	if err := open(t, dir, policy).Begin("r.test/app:1"); err != nil {
		t.Fatal(err)
	}
	if err := open(t, dir, policy).Begin("r.test/gone:1"); err != nil {
		t.Fatal(err)
	}
	b := open(t, dir, policy)
	if err := b.Recover(t.Context(), found{"r.test/app:1": id}); err != nil {
		t.Fatal(err)
	}
	if may(t, b, "r.test/app:1", secret("a", "1")) {
		t.Error("nobody knows with what the image was pulled, yet it is let out")
	}
	left, err := os.ReadDir(filepath.Join(dir, "image_manager", "pulling"))
	if err != nil || len(left) != 0 {
		t.Error(left, err)
	}
	if err := b.Forget(id); err != nil {
		t.Fatal(err)
	}
	if !may(t, b, "r.test/app:1") {
		t.Error("the record of a removed image is still there")
	}
}

func TestBadAllowlist(t *testing.T) {
	for _, pattern := range []string{"", "r.test/*/x", "r.test/app:1", "*"} {
		if _, err := record.Open(t.TempDir(), record.Policy{Allow: []string{pattern}}); err == nil || !strings.Contains(err.Error(), "preloadedImagesVerificationAllowlist") {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}
