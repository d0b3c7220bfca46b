package pull_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/images/pull"
	"github.com/gantry-project/gantry/internal/kubelet/images/pullmanager"
	"github.com/gantry-project/gantry/internal/reason"
)

// fakeRegistry is a runtime with images, a registry behind it, and everything that was reported.
type fakeRegistry struct {
	mu      sync.Mutex
	present map[string]bool
	refuse  map[string]error // by image
	login   string           // user name the registry wants
	slow    time.Duration
	pulls   int
	running int
	peak    int
	events  []string
}

func (w *fakeRegistry) ImageStatus(_ context.Context, s *runtimeapi.ImageSpec,
	_ bool) (*runtimeapi.ImageStatusResponse, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.present[s.Image] {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: "id-" + s.Image, Size: 1234}}, nil
}

func (w *fakeRegistry) PullImage(ctx context.Context, s *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig,
	_ *runtimeapi.PodSandboxConfig) (string, error) {
	w.mu.Lock()
	w.pulls++
	w.running++
	w.peak = max(w.peak, w.running)
	w.mu.Unlock()
	defer func() { w.mu.Lock(); w.running--; w.mu.Unlock() }()
	select {
	case <-time.After(w.slow):
	case <-ctx.Done():
		return "", status.FromContextError(ctx.Err()).Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.refuse[s.Image]; err != nil {
		return "", err
	}
	if w.login != "" && auth.GetUsername() != w.login {
		return "", status.Error(codes.Unknown, "401 Unauthorized")
	}
	w.present[s.Image] = true
	return "ref-" + s.Image, nil
}

func (w *fakeRegistry) Event(o runtime.Object, kind, why, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, fmt.Sprintf("%s %s %s %s", o.(*v1.ObjectReference).FieldPath, kind, why, message))
}

func (w *fakeRegistry) Put(_ journal.Ref, f journal.Fact) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, journal.Kind(f))
}

func (w *fakeRegistry) recorded() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := strings.Join(w.events, "\n")
	w.events = nil
	return s
}

func newFakeRegistry(parallel int) (*fakeRegistry, *pull.Puller) {
	w := &fakeRegistry{present: map[string]bool{}, refuse: map[string]error{}, slow: time.Second}
	return w, pull.New(pull.Deps{Images: w, Recorder: w, Journal: w, MaxParallel: parallel})
}

func pullRequest(uid, ref string, policy v1.PullPolicy) pull.Request {
	p := &v1.Pod{}
	p.Name, p.Namespace, p.UID = "p-"+uid, "ns", types.UID(uid)
	p.Spec.Containers = []v1.Container{{Name: "c", Image: ref, ImagePullPolicy: policy}}
	return pull.Request{Pod: p, Container: &p.Spec.Containers[0]}
}

func expect(t *testing.T, w *fakeRegistry, lines ...string) {
	t.Helper()
	if got, want := w.recorded(), strings.Join(lines, "\n"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// row: CRI-06
// row: CRI-07
// row: CRI-20
func TestPulledOnce(t *testing.T) {
	t.Run("without records", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { testPulledOnce(t, nil) })
	})
	t.Run("with records", func(t *testing.T) {
		manager, err := pullmanager.Open(t.TempDir(), pullmanager.Policy{Verify: kubelet.NeverVerifyPreloadedImages})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) { testPulledOnce(t, manager) })
	})
}

func testPulledOnce(t *testing.T, records pull.PullRecords) {
	w := &fakeRegistry{present: map[string]bool{}, slow: time.Second}
	p := pull.New(pull.Deps{Images: w, Recorder: w, Journal: w, MaxParallel: 1, Records: records})
	ref, err := p.EnsureImageExists(t.Context(), pullRequest("1", "app:1", v1.PullIfNotPresent))
	if err != nil || ref != "ref-app:1" {
		t.Fatalf("got %v, %v, want no error and ref ref-app:1", ref, err)
	}
	expect(t, w,
		`spec.containers{c} Normal Pulling Pulling image "app:1"`, "Pulling",
		`spec.containers{c} Normal Pulled Successfully pulled image "app:1" in 1s (1s including waiting). Image `+
			`size: 1234 bytes.`, "Pulled")
	ref, err = p.EnsureImageExists(t.Context(), pullRequest("2", "app:1", v1.PullIfNotPresent))
	if err != nil || ref != "id-app:1" || w.pulls != 1 {
		t.Fatalf("got %v, %v, %v, want no error, ref id-app:1 and pulls 1", ref, err, w.pulls)
	}
	// recordings/pods/image-one-good-one-missing
	expect(t, w,
		`spec.containers{c} Normal Pulled Container image "app:1" already present on machine and can be accessed `+
			`by the pod`, "Pulled")
	if _, err := p.EnsureImageExists(t.Context(), pullRequest("3", "app:1", v1.PullAlways)); err != nil ||
		w.pulls != 2 {
		t.Errorf("Always: %v after %d pulls, want a second one", err, w.pulls)
	}
}

// row: CRI-22
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := newFakeRegistry(1)
		w.refuse["app:1"] = status.Error(codes.NotFound, "app:1: not found")
		_, err := p.EnsureImageExists(t.Context(), pullRequest("1", "app:1", v1.PullIfNotPresent))
		var r *reason.Refusal
		if !errors.As(err, &r) || r.Code != reason.ErrImagePull ||
			r.Detail != "rpc error: code = NotFound desc = app:1: not found" {
			t.Fatalf("got %v", err)
		}
		expect(t, w, // recordings/pods/image-not-found
			`spec.containers{c} Normal Pulling Pulling image "app:1"`, "Pulling",
			`spec.containers{c} Warning Failed Failed to pull image "app:1": rpc error: code = NotFound desc = app:1: `+
				`not found`,
			`spec.containers{c} Warning Failed Error: ErrImagePull`, "PullFailed")
		_, err = p.EnsureImageExists(t.Context(), pullRequest("1", "app:1", v1.PullIfNotPresent))
		if !errors.As(err, &r) || r.Code != reason.ImagePullBackOff ||
			r.Detail != `Back-off pulling image "app:1": ErrImagePull: rpc error: code = NotFound desc = app:1: not `+
				`found` {
			t.Fatalf("got %v", err)
		}
		expect(t, w, `spec.containers{c} Normal BackOff Back-off pulling image "app:1"`, "BackingOff",
			`spec.containers{c} Warning Failed Error: ImagePullBackOff`)
		var f *pull.PullError
		if !errors.As(err, &f) || time.Until(f.RetryAt) != 10*time.Second {
			t.Fatalf("next try %v, want in 10s", f.RetryAt)
		}
		if _, err := p.EnsureImageExists(t.Context(), pullRequest("2", "app:1", v1.PullIfNotPresent)); !errors.As(err,
			&r) || r.Code != reason.ErrImagePull {
			t.Errorf("another Pod has its own back-off: %v", err)
		}
		time.Sleep(10 * time.Second)
		if _, err = p.EnsureImageExists(t.Context(), pullRequest("1", "app:1", v1.PullIfNotPresent)); !errors.As(err,
			&f) || f.Code != reason.ErrImagePull || time.Until(f.RetryAt) != 20*time.Second {
			t.Fatalf("second failure: %v", err)
		}
		if _, err := p.EnsureImageExists(t.Context(), pullRequest("1", "app:1", v1.PullAlways)); !errors.As(err, &f) ||
			f.Code != reason.ImagePullBackOff || time.Until(f.RetryAt) != 20*time.Second {
			t.Errorf("policy Always, after the second failure: got %v, want ImagePullBackOff for 20s", err)
		}
		p.Forget("1")
		delete(w.refuse, "app:1")
		if _, err := p.EnsureImageExists(t.Context(), pullRequest("1", "app:1", v1.PullIfNotPresent)); err != nil {
			t.Errorf("a forgotten Pod starts afresh: %v", err)
		}
	})
}

// row: CRI-07
func TestPullErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := newFakeRegistry(1)
		var r *reason.Refusal
		_, err := p.EnsureImageExists(t.Context(), pullRequest("1", "registry.example/absent:1", v1.PullNever))
		if !errors.As(err, &r) || r.Code != reason.ErrImageNeverPull {
			t.Fatalf("got %v, want an error that is a r and Code ErrImageNeverPull", err)
		}
		expect(t, w, // recordings/pods/image-never-missing
			`spec.containers{c} Warning ErrImageNeverPull Container image "registry.example/absent:1" is not present `+
				`with pull policy of Never`,
			`spec.containers{c} Warning Failed Error: ErrImageNeverPull`, "PullFailed")
		if _, err = p.EnsureImageExists(t.Context(), pullRequest("1", "Bad::x", v1.PullAlways)); !errors.As(err, &r) ||
			r.Code != reason.InvalidImageName {
			t.Fatalf("got %v, want an error that is a r and Code InvalidImageName", err)
		}
		if s := w.recorded(); !strings.Contains(s, "Warning InspectFailed Failed to apply default image tag") ||
			!strings.Contains(s, "Error: InvalidImageName") {
			t.Errorf(`got %v, want s with "Warning InspectFailed Failed to apply default image tag" and s with `+
				`"Error: InvalidImageName"`, s)
		}
		ofVolume := pullRequest("1", "", v1.PullNever)
		ofVolume.Container, ofVolume.Image, ofVolume.Policy = nil, "registry.example/absent:1", v1.PullNever
		_, err = p.EnsureImageExists(t.Context(), ofVolume)
		if s := w.recorded(); err == nil || !strings.Contains(s, "Warning ErrImageNeverPull Container image") ||
			strings.Contains(s, "Error: ErrImageNeverPull") {
			t.Errorf("the image of a volume: got %v and %s, want that no container is spoken of", err, s)
		}
		w.refuse["app:1"] = status.Error(codes.Unknown, "no such host")
		if _, err = p.EnsureImageExists(t.Context(), pullRequest("1", "app:1", v1.PullAlways)); !errors.As(err, &r) ||
			r.Detail != "no such host" {
			t.Errorf("a code of Unknown says nothing and is left out: %v", err)
		}
		w.refuse["app:2"] = status.Error(codes.Unknown, "RegistryUnavailable: 503")
		if _, err = p.EnsureImageExists(t.Context(), pullRequest("1", "app:2", v1.PullAlways)); !errors.As(err, &r) ||
			r.Code != reason.RegistryUnavailable ||
			r.Detail != "image pull failed for app:2 because the registry is unavailable: 503" {
			t.Errorf(`got %v, want an error that is a r, Code RegistryUnavailable and Detail "image pull failed for `+
				`app:2 because the registry is un…"`, err)
		}
	})
}

func TestWaitersShareOnePull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := newFakeRegistry(0)
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				if _, err := p.EnsureImageExists(t.Context(),
					pullRequest(fmt.Sprint(i), "app:1", v1.PullIfNotPresent)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if w.pulls != 1 {
			t.Errorf("%d pulls for five who wait, want 1", w.pulls)
		}
	})
}

// row: CRI-25
func TestParallelPulls(t *testing.T) {
	for _, tc := range []struct {
		limit, peak int
		took        time.Duration
	}{{1, 1, 4 * time.Second}, {2, 2, 2 * time.Second}, {0, 4, time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			w, p := newFakeRegistry(tc.limit)
			startedAt := time.Now()
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() {
					if _, err := p.EnsureImageExists(t.Context(),
						pullRequest("1", fmt.Sprintf("app:%d", i), v1.PullIfNotPresent)); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if w.peak != tc.peak || time.Since(startedAt) != tc.took {
				t.Errorf("limit %d: %d at once in %v, want %d in %v", tc.limit, w.peak, time.Since(startedAt), tc.peak,
					tc.took)
			}
		})
	}
}

func TestCancelledPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := newFakeRegistry(1)
		w.slow = time.Minute
		gone, leave := context.WithCancel(t.Context())
		errs := make(chan error, 2)
		go func() {
			_, err := p.EnsureImageExists(gone, pullRequest("1", "app:1", v1.PullIfNotPresent))
			errs <- err
		}()
		go func() {
			_, err := p.EnsureImageExists(t.Context(), pullRequest("2", "app:1", v1.PullIfNotPresent))
			errs <- err
		}()
		synctest.Wait()
		leave()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("who leaves gets %v", err)
		}
		if err := <-errs; err != nil {
			t.Errorf("who stays gets the image: %v", err)
		}
		if strings.Contains(w.recorded(), "Failed") {
			t.Error("leaving is no failure")
		}
		alone, leave := context.WithCancel(t.Context())
		go func() {
			_, err := p.EnsureImageExists(alone, pullRequest("1", "app:2", v1.PullIfNotPresent))
			errs <- err
		}()
		synctest.Wait()
		leave()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("who leaves alone gets %v", err)
		}
		synctest.Wait()
		if w.running != 0 {
			t.Error("a pull nobody waits for goes on")
		}
		if _, err := p.EnsureImageExists(t.Context(), pullRequest("1", "app:2", v1.PullIfNotPresent)); err != nil {
			t.Errorf("the next one starts afresh: %v", err)
		}
	})
}

// row: CRI-23
func TestPullSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := newFakeRegistry(1)
		w.login = "right"
		secret := func(user string) *v1.Secret {
			return &v1.Secret{Type: v1.SecretTypeDockercfg,
				Data: map[string][]byte{v1.DockerConfigKey: fmt.Appendf(nil,
					`{"registry.example":{"username":%q,"password":"x"}}`, user)}}
		}
		var r *reason.Refusal
		if _, err := p.EnsureImageExists(t.Context(),
			pullRequest("1", "registry.example/app:1", v1.PullAlways)); !errors.As(err, &r) ||
			r.Detail != "401 Unauthorized" {
			t.Errorf("without a secret: %v", err)
		}
		with := pullRequest("2", "registry.example/app:1", v1.PullAlways)
		with.Secrets = []*v1.Secret{secret("wrong"), secret("right")}
		if _, err := p.EnsureImageExists(t.Context(), with); err != nil {
			t.Errorf("with two secrets, the second right: %v", err)
		}
	})
}

// row: OPS-11
// Requests are counted as upstream counts them.
func TestRequestsForImagesAreReported(t *testing.T) {
	for _, c := range []struct {
		policy v1.PullPolicy
		there  bool
		image  string
		want   string
	}{
		{v1.PullAlways, true, "a:1", "Always unknown true"},
		{v1.PullIfNotPresent, true, "a:1", "IfNotPresent true false"},
		{v1.PullIfNotPresent, false, "a:1", "IfNotPresent false true"},
		{v1.PullNever, false, "a:1", "Never false unknown"},
		{v1.PullNever, true, "a:1", "Never true false"},
		{v1.PullIfNotPresent, true, "A:1", "IfNotPresent unknown unknown"}, // no name of an image
	} {
		w, _ := newFakeRegistry(1)
		w.slow, w.present = 0, map[string]bool{"a:1": c.there}
		var got []string
		p := pull.New(pull.Deps{Images: w, Recorder: w, Journal: w,
			Requested: func(policy v1.PullPolicy, present, pulled string) {
				got = append(got, fmt.Sprint(policy, " ", present, " ", pulled))
			}})
		_, _ = p.EnsureImageExists(t.Context(), pull.Request{Pod: &v1.Pod{},
			Container: &v1.Container{Name: "c", Image: c.image, ImagePullPolicy: c.policy}})
		if len(got) != 1 || got[0] != c.want {
			t.Errorf("%s, there: %t: got %q, want %q", c.policy, c.there, got, c.want)
		}
	}
}
