package pullmanager_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/images"
	"github.com/gantry-project/gantry/internal/kubelet/images/pullmanager"
)

const id = "sha256:1234"

func secret(uid, password string) images.Credential {
	return images.Credential{
		Auth: &runtimeapi.AuthConfig{Username: "u", Password: password},
		Origin: images.Origin{Name: "ns/" + uid, Secret: &kubelet.ImagePullSecret{UID: uid, Namespace: "ns",
			Name: uid}},
	}
}

func open(t *testing.T, dir string, p pullmanager.Policy) *pullmanager.PullManager {
	t.Helper()
	b, err := pullmanager.Open(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func pull(t *testing.T, b *pullmanager.PullManager, name string, used *images.Credential) {
	t.Helper()
	if err := b.RecordPullIntent(name); err != nil {
		t.Fatal(err)
	}
	if err := b.RecordPullResult(name, id, used); err != nil {
		t.Fatal(err)
	}
}

func mayUse(t *testing.T, b *pullmanager.PullManager, name string, has ...images.Credential) bool {
	return b.MayUse(t.Context(), name, id, func() []images.Credential { return has })
}

func TestMayUse(t *testing.T) {
	a, other := secret("a", "1"), secret("b", "2")
	account := images.Credential{Auth: &runtimeapi.AuthConfig{},
		Origin: images.Origin{ServiceAccount: &kubelet.ImagePullServiceAccount{UID: "s", Namespace: "ns", Name: "sa"}}}
	preloaded := kubelet.NeverVerifyPreloadedImages
	for _, x := range []struct {
		name   string
		policy pullmanager.Policy
		used   *images.Credential
		pulled bool
		ask    string
		has    []images.Credential
		want   bool
	}{
		{"preloaded", pullmanager.Policy{Verify: preloaded}, nil, false, "r.test/app:1", nil, true},
		{"preloaded, always", pullmanager.Policy{Verify: kubelet.AlwaysVerify}, nil, false, "r.test/app:1", nil, false},
		{"preloaded, allowed", pullmanager.Policy{Verify: kubelet.NeverVerifyAllowlistedImages,
			Allow: []string{"r.test/*"}}, nil, false, "r.test/app:1", nil, true},
		{"preloaded, allowed by name", pullmanager.Policy{Verify: kubelet.NeverVerifyAllowlistedImages,
			Allow: []string{"r.test/app"}}, nil, false, "r.test/app:1", nil, true},
		{"preloaded, not allowed", pullmanager.Policy{Verify: kubelet.NeverVerifyAllowlistedImages,
			Allow: []string{"r.tes/*", "r.test/ap"}}, nil, false, "r.test/app:1", nil, false},
		{"without credentials", pullmanager.Policy{Verify: preloaded}, nil, true, "r.test/app:1", nil, true},
		{"without credentials, other name", pullmanager.Policy{Verify: preloaded}, nil, true, "r.test/other:1", nil,
			false},
		{"without credentials, other tag", pullmanager.Policy{Verify: preloaded}, nil, true, "r.test/app:2", nil, true},
		{"secret, none", pullmanager.Policy{Verify: preloaded}, &a, true, "r.test/app:1", nil, false},
		{"secret, never verified", pullmanager.Policy{Verify: kubelet.NeverVerify}, &a, true, "r.test/app:1", nil,
			true},
		{"secret, same", pullmanager.Policy{Verify: preloaded}, &a, true, "r.test/app:1", []images.Credential{other, a},
			true},
		{"secret, other", pullmanager.Policy{Verify: preloaded}, &a, true, "r.test/app:1", []images.Credential{other},
			false},
		{"secret, same with new content", pullmanager.Policy{Verify: preloaded}, &a, true, "r.test/app:1",
			[]images.Credential{secret("a", "3")}, true},
		{"secret, other with same content", pullmanager.Policy{Verify: preloaded}, &a, true, "r.test/app:1",
			[]images.Credential{secret("c", "1")}, true},
		{"account, same", pullmanager.Policy{Verify: preloaded}, &account, true, "r.test/app:1",
			[]images.Credential{account}, true},
		{"account, a secret", pullmanager.Policy{Verify: preloaded}, &account, true, "r.test/app:1",
			[]images.Credential{a}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			dir := t.TempDir()
			b := open(t, dir, x.policy)
			if x.pulled {
				pull(t, b, "r.test/app:1", x.used)
			}
			if got := mayUse(t, open(t, dir, x.policy), x.ask, x.has...); got != x.want {
				t.Errorf("%v, want %v", got, x.want)
			}
		})
	}
}

func TestASecondSecretOpensTheImageToo(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir, pullmanager.Policy{Verify: kubelet.NeverVerifyPreloadedImages})
	a, duplicate := secret("a", "1"), secret("twin", "1")
	pull(t, b, "r.test/app:1", &a)
	if !mayUse(t, b, "r.test/app:1", duplicate) {
		t.Fatal("same content is refused")
	}
	if !mayUse(t, b, "r.test/app:1", secret("twin", "new")) {
		t.Error("the secret that was let in is forgotten")
	}
}

type fakeImages map[string]string

func (f fakeImages) ImageStatus(_ context.Context, s *runtimeapi.ImageSpec,
	_ bool) (*runtimeapi.ImageStatusResponse, error) {
	if f[s.Image] == "" {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: f[s.Image]}}, nil
}

func TestPullCutOffByTheEndOfTheKubelet(t *testing.T) {
	dir := t.TempDir()
	policy := pullmanager.Policy{Verify: kubelet.NeverVerifyPreloadedImages}
	if err := open(t, dir, policy).RecordPullIntent("r.test/app:1"); err != nil {
		t.Fatal(err)
	}
	if err := open(t, dir, policy).RecordPullIntent("r.test/gone:1"); err != nil {
		t.Fatal(err)
	}
	b := open(t, dir, policy)
	if err := b.Recover(t.Context(), fakeImages{"r.test/app:1": id}); err != nil {
		t.Fatal(err)
	}
	if mayUse(t, b, "r.test/app:1", secret("a", "1")) {
		t.Error("nobody knows with what the image was pulled, yet it is let out")
	}
	left, err := os.ReadDir(filepath.Join(dir, "image_manager", "pulling"))
	if err != nil || len(left) != 0 {
		t.Errorf("got %v, %v, want no error and no left", left, err)
	}
	if err := b.Forget(id); err != nil {
		t.Fatal(err)
	}
	if !mayUse(t, b, "r.test/app:1") {
		t.Error("the record of a removed image is still there")
	}
}

func TestBadAllowlist(t *testing.T) {
	for _, pattern := range []string{"", "r.test/*/x", "r.test/app:1", "*"} {
		if _, err := pullmanager.Open(t.TempDir(), pullmanager.Policy{Allow: []string{pattern}}); err == nil ||
			!strings.Contains(err.Error(), "preloadedImagesVerificationAllowlist") {
			t.Errorf(`%q: got %v, want an error with "preloadedImagesVerificationAllowlist"`, pattern, err)
		}
	}
}
