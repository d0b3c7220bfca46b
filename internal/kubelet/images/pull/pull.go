package pull

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/images"
	"github.com/gantry-project/gantry/internal/reason"
)

// Runtime is the part of CRI's image service that pulling needs; internalapi.ImageManagerService is
// one.
type Runtime interface {
	ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error)
	PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig,
		sandbox *runtimeapi.PodSandboxConfig) (string, error)
}

// Recorder takes Kubernetes events; client-go's record.EventRecorder is one.
type Recorder interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

// NodeCredentials has credentials beside those of Pods' secrets; credentialprovider.Providers is
// one.
type NodeCredentials interface {
	Credentials(ctx context.Context, image string, pod *v1.Pod) ([]images.Credential, []error)
}

// PullRecords remember who may use which image; pullmanager.PullManager is one.
type PullRecords interface {
	MayUse(ctx context.Context, name, id string, credentials func() []images.Credential) bool
	RecordPullIntent(name string) error
	RecordPullResult(name, id string, used *images.Credential) error
}

// Deps is what a Puller works with.
type Deps struct {
	Images          Runtime
	Recorder        Recorder
	Journal         journal.Sink
	NodeCredentials NodeCredentials // nil: there are no credentials but those of secrets
	Records         PullRecords     // nil: an image that is there is for everybody
	// pulls per second in the long run (registryPullQPS); one too many fails with "pull QPS
	// exceeded"; 0 is no bound
	QPS   float32
	Burst int // pulls at once (registryBurst)
	// pulls side by side, first come first served; 1 is upstream's default (serializeImagePulls), 0
	// is no bound
	MaxParallel int
	FirstDelay  time.Duration // back-off after a failed pull; 10 s when 0
	MaxDelay    time.Duration // 300 s when 0

	// Requested, when not nil, is called for each image that is asked for: the policy, whether the
	// image was there, and whether it had to be pulled, each true, false or unknown, as upstream
	// counts
	Requested func(policy v1.PullPolicy, present, pull string)
	// Tags asks the registry which tags there are of an image's repository; nil: nobody asks.
	Tags func(ctx context.Context, image string, auth *runtimeapi.AuthConfig) ([]string, error)
	// Progress tells how many bytes of an image that is being pulled are there, and of how many;
	// nil, or false: nobody can tell.
	Progress func(ctx context.Context, image string) (done, total int64, ok bool)
}

// Request asks for the image of one container, or of an image volume.
type Request struct {
	Pod       *v1.Pod
	Container *v1.Container // nil for an image volume
	Image     string        // of an image volume; empty takes the container's
	Policy    v1.PullPolicy // of an image volume; empty takes the container's
	FieldPath string        // of the event's object; empty finds the container's, as spec.containers{name}
	Secrets   []*v1.Secret  // the Pod's imagePullSecrets that exist
	Sandbox   *runtimeapi.PodSandboxConfig
	Handler   string // runtime handler of the Pod's RuntimeClass
}

// PullError is the error of an image that is not there: a *reason.Refusal, and when trying again
// makes sense. A zero RetryAt means that only a change of the Pod, or of what the node has, can
// help.
type PullError struct {
	*reason.Refusal
	RetryAt time.Time
}

// Unwrap returns the refusal.
func (f *PullError) Unwrap() error { return f.Refusal }

// Puller makes sure that images are there.
type Puller struct {
	d       Deps
	queue   *pullQueue
	limiter flowcontrol.PassiveRateLimiter

	mu       sync.Mutex
	inflight map[string]*sharedPull
	failed   map[failureKey]images.BackOff
}

type failureKey struct {
	pod   types.UID
	image string
}

// New returns a Puller.
func New(d Deps) *Puller {
	d.FirstDelay = cmp.Or(d.FirstDelay, images.FirstDelay)
	d.MaxDelay = cmp.Or(d.MaxDelay, images.MaxDelay)
	rate := flowcontrol.NewFakeAlwaysRateLimiter()
	if d.QPS > 0 {
		rate = flowcontrol.NewTokenBucketRateLimiter(d.QPS, d.Burst)
	}
	p := &Puller{d: d, limiter: rate, queue: &pullQueue{limit: d.MaxParallel}, inflight: map[string]*sharedPull{},
		failed: map[failureKey]images.BackOff{}}
	return p
}

// EnsureImageExists returns the reference to create the container from, pulling the image if the
// policy says so. It waits for the pull; when ctx ends, the pull goes on only if others wait for it
// too. The error is ctx's, or a *PullError whose Detail is the container's waiting message.
func (p *Puller) EnsureImageExists(ctx context.Context, r Request) (string, error) {
	t := newPodPull(p.d, &r)
	present, required := "unknown", "unknown"
	defer func() {
		if p.d.Requested != nil {
			p.d.Requested(t.policy, present, required)
		}
	}()
	name, err := images.Normalize(t.image)
	var refusal *reason.Refusal
	if errors.As(err, &refusal) {
		return "", p.refuse(t, refusal, "InspectFailed", time.Time{})
	}
	if err != nil {
		return "", err
	}
	spec := &runtimeapi.ImageSpec{Image: name, UserSpecifiedImage: t.image, RuntimeHandler: r.Handler,
		Annotations: r.Pod.Annotations}
	lookupStart := time.Now()
	found, err := p.d.Images.ImageStatus(ctx, spec, false)
	lookupTime := time.Since(lookupStart)
	if err != nil {
		if ctx.Err() != nil {
			return "", fmt.Errorf("image %q: %w", t.image, ctx.Err())
		}
		detail := fmt.Sprintf("Failed to inspect image %q: %v", name, err)
		return "", p.refuse(t, &reason.Refusal{Code: reason.ImageInspectError, Detail: detail,
			Fix: "look at the container runtime's log"}, "InspectFailed", time.Time{})
	}
	usable := p.mayUse(ctx, t, spec, found.GetImage().GetId())
	present, required = needOf(t.policy, found.GetImage().GetId() != "", usable)
	switch images.Decide(t.policy, usable) {
	case images.Use:
		t.reportPresent(found.GetImage().GetSize(), lookupTime)
		return found.GetImage().GetId(), nil
	case images.Refuse:
		return "", p.refuse(t, &reason.Refusal{
			Code:   reason.ErrImageNeverPull,
			Detail: fmt.Sprintf("Container image %q is not present with pull policy of Never", t.image),
			Fix:    "load the image onto the node, or set imagePullPolicy to IfNotPresent",
		}, string(reason.ErrImageNeverPull), time.Time{})
	}
	return p.pull(ctx, t, spec)
}

// needOf is what upstream counts of a request: whether the image is there, which it does not look
// up for the policy Always, and whether it has to be pulled, which it does not ask of one that is
// missing and never pulled.
func needOf(policy v1.PullPolicy, has, usable bool) (present, required string) {
	switch {
	case policy == v1.PullAlways:
		return "unknown", "true"
	case policy == v1.PullNever && !has:
		return "false", "unknown"
	}
	return strconv.FormatBool(has), strconv.FormatBool(!usable)
}

// mayUse tells whether the image is there and the Pod may use it without asking the registry.
func (p *Puller) mayUse(ctx context.Context, t *podPull, spec *runtimeapi.ImageSpec, id string) bool {
	if id == "" || p.d.Records == nil || t.policy == v1.PullAlways {
		return id != ""
	}
	return p.d.Records.MayUse(ctx, spec.Image, id, func() []images.Credential { return p.credentials(ctx, t, spec) })
}

// credentials are the Pod's, then the node's. What cannot be read is left out, as upstream does.
func (p *Puller) credentials(ctx context.Context, t *podPull, spec *runtimeapi.ImageSpec) []images.Credential {
	out, bad := images.Credentials(spec.Image, t.Secrets)
	if p.d.NodeCredentials != nil {
		more, errs := p.d.NodeCredentials.Credentials(ctx, spec.Image, t.Pod)
		out, bad = append(out, more...), append(bad, errs...)
	}
	for _, err := range bad {
		klog.FromContext(ctx).Error(err, "Credentials not used", "pod", klog.KObj(t.Pod), "image", spec.Image)
	}
	return out
}

// Forget drops what is remembered about a Pod's failed pulls.
func (p *Puller) Forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k := range p.failed {
		if k.pod == uid {
			delete(p.failed, k)
		}
	}
}

func (p *Puller) pull(ctx context.Context, t *podPull, spec *runtimeapi.ImageSpec) (string, error) {
	key := failureKey{t.Pod.UID, spec.Image}
	p.mu.Lock()
	past := p.failed[key]
	p.mu.Unlock()
	if past.Waiting(time.Now()) {
		return "", p.backOffError(t, past)
	}
	t.reportPulling()
	lookupStart := time.Now()
	got, err := p.joinPull(ctx, t, spec)
	if err != nil {
		if ctx.Err() != nil {
			return "", fmt.Errorf("image %q: %w", t.image, ctx.Err())
		}
		p.diagnose(ctx, t, spec, err)
		return "", p.pullFailed(t, key, err)
	}
	p.mu.Lock()
	delete(p.failed, key)
	p.mu.Unlock()
	t.reportPulled(got, time.Since(lookupStart))
	return got.ref, nil
}

func (p *Puller) pullFailed(t *podPull, key failureKey, err error) error {
	code, detail := classifyError(t.image, err)
	now := time.Now()
	p.mu.Lock()
	maps.DeleteFunc(p.failed, func(_ failureKey, b images.BackOff) bool { return b.Stale(now, p.d.MaxDelay) })
	next := p.failed[key].Failed(now, p.d.FirstDelay, p.d.MaxDelay, string(code)+": "+detail)
	p.failed[key] = next
	p.mu.Unlock()
	message := detail
	if code == reason.ErrImagePull {
		message = fmt.Sprintf("Failed to pull image %q: %s", t.image, detail)
	}
	t.warn("Failed", message)
	r := &reason.Refusal{Code: code, Detail: detail,
		Fix: "check the image's name and tag, the registry, and imagePullSecrets"}
	return p.refuse(t, r, "", next.Until)
}

// backOffError refuses a pull until the back-off after the last failure is over (upstream:
// imageBackOff): ImagePullBackOff with the last failure, and when the next try may be.
func (p *Puller) backOffError(t *podPull, past images.BackOff) error {
	text := fmt.Sprintf("Back-off pulling image %q", t.image)
	t.event(v1.EventTypeNormal, "BackOff", text)
	r := &reason.Refusal{Code: reason.ImagePullBackOff, Detail: text + ": " + past.Error,
		Fix: "mend what the last pull failed of; it is tried again by itself"}
	t.put(journal.BackingOff{Container: t.container, What: string(r.Code), Delay: journal.Took(past.Delay),
		Until: past.Until, Message: r.Detail})
	t.warnContainer(r.Code)
	return &PullError{Refusal: withSource(r), RetryAt: past.Until}
}

// refuse reports a pull that failed: an event with the detail under its own reason, unless told
// already, and one for the container.
func (p *Puller) refuse(t *podPull, r *reason.Refusal, event string, retry time.Time) error {
	if event != "" {
		t.warn(event, r.Detail)
	}
	t.warnContainer(r.Code)
	t.put(journal.PullFailed{Image: t.image, Reason: string(r.Code), Message: r.Detail, RetryAt: retry,
		Secrets: t.pullSecrets()})
	return &PullError{Refusal: withSource(r), RetryAt: retry}
}

func withSource(r *reason.Refusal) *reason.Refusal {
	r.By = "kubelet/image"
	return r
}

// classifyError names the failure. Runtimes mark two kinds in their text; a code of Unknown says
// nothing and is left out.
func classifyError(name string, err error) (reason.Code, string) {
	text := err.Error()
	if s, ok := status.FromError(err); ok && s.Code() == codes.Unknown {
		text = s.Message()
	}
	if rest, ok := strings.CutPrefix(text, string(reason.RegistryUnavailable)); ok {
		return reason.RegistryUnavailable, fmt.Sprintf("image pull failed for %s because the registry is unavailable%s",
			name, rest)
	}
	if rest, ok := strings.CutPrefix(text, string(reason.SignatureValidationFailed)); ok {
		return reason.SignatureValidationFailed,
			fmt.Sprintf("image pull failed for %s because the signature validation failed%s", name, rest)
	}
	return reason.ErrImagePull, text
}
