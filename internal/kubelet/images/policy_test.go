package images_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/kubelet/images"
	"github.com/gantry-project/gantry/internal/reason"
)

// row: CRI-07
func TestPullPolicyDecides(t *testing.T) {
	for _, tc := range []struct {
		policy  v1.PullPolicy
		present bool
		want    images.Decision
	}{
		{v1.PullAlways, true, images.Pull}, {v1.PullAlways, false, images.Pull},
		{v1.PullIfNotPresent, true, images.Use}, {v1.PullIfNotPresent, false, images.Pull},
		{v1.PullNever, true, images.Use}, {v1.PullNever, false, images.Refuse},
		{"", true, images.Use}, {"", false, images.Pull},
	} {
		if got := images.Decide(tc.policy, tc.present); got != tc.want {
			t.Errorf("%s, present %v: %v, want %v", tc.policy, tc.present, got, tc.want)
		}
	}
}

func TestImageNamesAreNormalized(t *testing.T) {
	digest := "@sha256:" + fmt.Sprintf("%064d", 7)
	for in, want := range map[string]string{
		"busybox":                          "busybox:latest",
		"busybox:1.37":                     "busybox:1.37",
		"registry.example:5000/a/b":        "registry.example:5000/a/b:latest",
		"registry.example/a" + digest:      "registry.example/a" + digest,
		"registry.example/a:v1" + digest:   "registry.example/a:v1" + digest,
		"registry.example:5000/a/b:v1.2.3": "registry.example:5000/a/b:v1.2.3",
	} {
		if got, err := images.Normalize(in); err != nil || got != want {
			t.Errorf("%s: %q %v, want %q", in, got, err, want)
		}
	}
	_, err := images.Normalize("registry.example/Bad_Name::x")
	var r *reason.Refusal
	// recordings/pods/image-invalid-name
	const want = `Failed to apply default image tag "registry.example/Bad_Name::x": couldn't parse image name ` +
		`"registry.example/Bad_Name::x": invalid reference format: repository name (Bad_Name) must be lowercase`
	if !errors.As(err, &r) || r.Code != reason.InvalidImageName || r.Detail != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// row: CRI-22
func TestBackOffDoubles(t *testing.T) {
	now := time.Unix(1000, 0)
	var b images.BackOff
	for i, want := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
		b = b.Failed(now, images.FirstDelay, images.MaxDelay, "ErrImagePull: no")
		if b.Delay != want*time.Second || !b.Until.Equal(now.Add(b.Delay)) {
			t.Fatalf("failure %d: delay %v until %v, want %ds", i+1, b.Delay, b.Until, want)
		}
		if !b.Waiting(b.Until.Add(-1)) || b.Waiting(b.Until) {
			t.Fatalf("failure %d: waiting is wrong around %v", i+1, b.Until)
		}
		now = b.Until
	}
	now = now.Add(601 * time.Second)
	if b = b.Failed(now, images.FirstDelay, images.MaxDelay, "x"); b.Delay != 10*time.Second {
		t.Errorf("after a long quiet time the delay is %v, want 10s", b.Delay)
	}
}

func secret(name, host, user string) *v1.Secret {
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":pw"))
	s := &v1.Secret{Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{
		v1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, host, auth),
	}}
	s.Name, s.Namespace = name, "ns"
	return s
}

func TestCredentials(t *testing.T) {
	for name, tc := range map[string]struct {
		image, host string
		fits        bool
	}{
		"same host":                {"registry.example/a/b:1", "registry.example", true},
		"scheme is ignored":        {"registry.example/a:1", "https://registry.example", true},
		"other host":               {"registry.example/a:1", "other.example", false},
		"port has to match":        {"registry.example:5000/a:1", "registry.example", false},
		"same port":                {"registry.example:5000/a:1", "registry.example:5000", true},
		"path is a prefix":         {"registry.example/team/app:1", "registry.example/team", true},
		"other path":               {"registry.example/team/app:1", "registry.example/else", false},
		"star for one part":        {"eu.registry.example/a:1", "*.registry.example", true},
		"star is one part only":    {"a.eu.registry.example/a:1", "*.registry.example", false},
		"Docker Hub by short name": {"busybox", "https://index.docker.io/v1/", true},
		"Docker Hub by domain":     {"user/app", "docker.io", true},
		"API version is no path":   {"registry.example/a:1", "https://registry.example/v2/", true},
	} {
		t.Run(name, func(t *testing.T) {
			got, bad := images.Credentials(tc.image, []*v1.Secret{secret("s", tc.host, "u")})
			if len(bad) > 0 {
				t.Fatalf("got %v, want no bad", bad)
			}
			if (len(got) == 1) != tc.fits {
				t.Fatalf("%d credentials for %s from %s", len(got), tc.image, tc.host)
			}
			if tc.fits && (got[0].Auth.Username != "u" || got[0].Auth.Password != "pw" ||
				got[0].Origin.Name != "ns/s") {
				t.Errorf("got %+v", got[0])
			}
		})
	}
}

func TestCredentialsOrderAndDamage(t *testing.T) {
	broken := &v1.Secret{Type: v1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{v1.DockerConfigJsonKey: []byte("{")}}
	opaque := &v1.Secret{Type: v1.SecretTypeOpaque}
	old := &v1.Secret{Type: v1.SecretTypeDockercfg,
		Data: map[string][]byte{
			v1.DockerConfigKey: []byte(`{"registry.example/team":{"username":"cfg","password":"p"}}`)}}
	got, bad := images.Credentials("registry.example/team/app", []*v1.Secret{secret("a", "registry.example", "first"),
		broken, opaque, old, secret("b", "registry.example", "second")})
	if len(bad) != 2 {
		t.Errorf("%d damaged secrets reported, want 2: %v", len(bad), bad)
	}
	var users []string
	for _, c := range got {
		users = append(users, c.Auth.Username)
	}
	if want := "[cfg first second]"; fmt.Sprint(users) != want {
		t.Errorf("order %v, want %s: the longest path first, then the secrets' order", users, want)
	}
}

// row: CRI-26
func TestPlanGC(t *testing.T) {
	now := time.Unix(100000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	stored := []images.StoredImage{
		{ID: "used", Bytes: 40, FirstDetected: ago(9 * time.Hour), LastUsed: now},
		{ID: "pinned", Bytes: 40, Pinned: true, FirstDetected: ago(9 * time.Hour)},
		{ID: "old", Bytes: 10, FirstDetected: ago(8 * time.Hour), LastUsed: ago(5 * time.Hour)},
		{ID: "older", Bytes: 10, FirstDetected: ago(8 * time.Hour), LastUsed: ago(6 * time.Hour)},
		{ID: "never", Bytes: 3, FirstDetected: ago(7 * time.Hour)},
		{ID: "young", Bytes: 40, FirstDetected: ago(time.Minute)},
	}
	inUse := func(id string) bool { return id == "used" }
	limits := images.GCPolicy{High: 85, Low: 80, MinAge: 2 * time.Minute}
	for name, tc := range map[string]struct {
		disk  images.Disk
		t     images.GCPolicy
		want  string
		short bool
	}{
		"below the threshold":      {images.Disk{Capacity: 100, Available: 20}, limits, "[]", false},
		"never used goes first":    {images.Disk{Capacity: 100, Available: 15}, limits, "[never older]", false},
		"least recently used next": {images.Disk{Capacity: 100, Available: 8}, limits, "[never older]", false},
		"as long as needed": {images.Disk{Capacity: 100, Available: 1}, limits, "[never older old]",
			false},
		"it may not be enough": {images.Disk{Capacity: 1000, Available: 10}, limits, "[never older old]",
			true},
		"max age whatever the disk says": {images.Disk{Capacity: 100, Available: 90},
			images.GCPolicy{High: 85, Low: 80, MaxAge: 5*time.Hour + time.Minute}, "[never older]", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := images.PlanGC(now, images.GCState{Disk: tc.disk, Images: stored, InUse: inUse}, tc.t)
			ids := []string{}
			for _, s := range c.Remove {
				ids = append(ids, s.ID)
			}
			if fmt.Sprint(ids) != tc.want || (c.Wanted > c.Bytes) != tc.short {
				t.Errorf("removes %v, %d of %d bytes; want %s, short %v", ids, c.Bytes, c.Wanted, tc.want, tc.short)
			}
		})
	}
}
