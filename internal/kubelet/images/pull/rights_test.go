package pull_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/kubelet/images"
	"github.com/gantry-project/gantry/internal/kubelet/images/pull"
	"github.com/gantry-project/gantry/internal/kubelet/images/pullmanager"
)

func request(name, img string, policy v1.PullPolicy, secrets ...*v1.Secret) pull.Request {
	c := v1.Container{Name: "c", Image: img, ImagePullPolicy: policy}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec: v1.PodSpec{Containers: []v1.Container{c}}}
	return pull.Request{Pod: p, Container: &p.Spec.Containers[0], Secrets: secrets}
}

func dockerSecret(name, user string) *v1.Secret {
	return &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Type:       v1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{
			v1.DockerConfigJsonKey: []byte(`{"auths":{"r.test":{"username":"` + user + `","password":"p"}}}`)},
	}
}

// nodeCredentials has one login for every image.
type nodeCredentials struct{ user string }

func (p nodeCredentials) Credentials(context.Context, string, *v1.Pod) ([]images.Credential, []error) {
	return []images.Credential{{Auth: &runtimeapi.AuthConfig{Username: p.user, Password: "p"},
		Origin: images.Origin{Name: "provider"}}}, nil
}

// row: CRI-23
func TestNodeAndSecretsBothOpenRegistries(t *testing.T) {
	for _, x := range []struct {
		name string
		d    pull.Deps
		r    pull.Request
		want string
	}{
		{"none", pull.Deps{}, request("a", "r.test/app:1", ""), "401"},
		{"secret", pull.Deps{}, request("a", "r.test/app:1", "", dockerSecret("s", "robot")), ""},
		{"second secret of two", pull.Deps{},
			request("a", "r.test/app:1", "", dockerSecret("s", "other"), dockerSecret("t", "robot")), ""},
		{"wrong secret", pull.Deps{}, request("a", "r.test/app:1", "", dockerSecret("s", "other")), "401"},
		{"wrong provider", pull.Deps{NodeCredentials: nodeCredentials{"other"}},
			request("a", "r.test/app:1", ""), "401"},
		{"wrong provider, a good secret", pull.Deps{NodeCredentials: nodeCredentials{"other"}},
			request("a", "r.test/app:1", "", dockerSecret("s", "robot")), ""},
		{"provider", pull.Deps{NodeCredentials: nodeCredentials{"robot"}}, request("a", "r.test/app:1", ""), ""},
		{"wrong secret, then provider", pull.Deps{NodeCredentials: nodeCredentials{"robot"}},
			request("a", "r.test/app:1", "", dockerSecret("s", "other")), ""},
	} {
		w := &fakeRegistry{present: map[string]bool{}, login: "robot"}
		x.d.Images, x.d.Recorder, x.d.Journal = w, w, w
		_, err := pull.New(x.d).EnsureImageExists(t.Context(), x.r)
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%s: got %v, want an error with %q (none if empty)", x.name, err, x.want)
		}
	}
}

// row: CRI-23
func TestOnePodsSecretDoesNotOpenTheImageForAnother(t *testing.T) {
	w := &fakeRegistry{present: map[string]bool{}, login: "robot"}
	manager, err := pullmanager.Open(t.TempDir(), pullmanager.Policy{Verify: kubelet.NeverVerifyPreloadedImages})
	if err != nil {
		t.Fatal(err)
	}
	p := pull.New(pull.Deps{Images: w, Recorder: w, Journal: w, Records: manager})
	if _, err := p.EnsureImageExists(t.Context(), request("owner", "r.test/app:1", v1.PullIfNotPresent,
		dockerSecret("s", "robot"))); err != nil {
		t.Fatal(err)
	}
	if _, err := p.EnsureImageExists(t.Context(), request("friend", "r.test/app:1", v1.PullNever,
		dockerSecret("s", "robot"))); err != nil || w.pulls != 1 {
		t.Fatalf("%v after %d pulls", err, w.pulls)
	}
	if _, err := p.EnsureImageExists(t.Context(), request("thief", "r.test/app:1", v1.PullIfNotPresent)); err == nil ||
		!strings.Contains(err.Error(), "401") {
		t.Errorf("a Pod without credentials: %v", err)
	}
	if _, err := p.EnsureImageExists(t.Context(), request("lazy", "r.test/app:1", v1.PullNever)); err == nil ||
		!strings.Contains(err.Error(), `Container image "r.test/app:1" is not present with pull policy of Never`) {
		t.Errorf("a Pod without credentials that does not pull: %v", err)
	}
	w.present["preloaded:1"] = true
	if _, err := p.EnsureImageExists(t.Context(), request("any", "preloaded:1", v1.PullNever)); err != nil {
		t.Errorf("an image the kubelet did not pull: %v", err)
	}
}

func TestTooManyPullsPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fakeRegistry{present: map[string]bool{}}
		p := pull.New(pull.Deps{Images: w, Recorder: w, Journal: w, QPS: 1, Burst: 2})
		for i, want := range []string{"", "", "pull QPS exceeded"} {
			_, err := p.EnsureImageExists(t.Context(), request(string(rune('a'+i)), "r.test/app:"+string(rune('1'+i)),
				""))
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("pull %d: %v", i, err)
			}
		}
		time.Sleep(time.Second)
		if _, err := p.EnsureImageExists(t.Context(), request("z", "r.test/app:9", "")); err != nil {
			t.Error(err)
		}
	})
}
