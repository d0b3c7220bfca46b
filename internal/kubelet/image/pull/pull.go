package pull

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

// Runtime is the part of CRI's image service that pulling needs; internalapi.ImageManagerService is one.
type Runtime interface {
	ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error)
	PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandbox *runtimeapi.PodSandboxConfig) (string, error)
}

// Recorder takes Kubernetes events; record.EventRecorder is one.
type Recorder interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

// Deps is what a Puller works with.
type Deps struct {
	Images      Runtime
	Recorder    Recorder
	Journal     journal.Sink
	MaxParallel int           // pulls side by side; 1 is upstream's default (serializeImagePulls), 0 is no bound
	FirstDelay  time.Duration // back-off after a failed pull; 10 s when 0
	MaxDelay    time.Duration // 300 s when 0
}

// Request asks for the image of one container, or of an image volume.
type Request struct {
	Pod       *v1.Pod
	Container *v1.Container // nil for an image volume
	Image     string        // of an image volume; empty takes the container's
	Policy    v1.PullPolicy // of an image volume; empty takes the container's
	FieldPath string        // of the event's object, spec.containers{name}; empty for an image volume
	Secrets   []*v1.Secret  // the Pod's imagePullSecrets that exist
	Sandbox   *runtimeapi.PodSandboxConfig
	Handler   string // runtime handler of the Pod's RuntimeClass
}

// Puller makes sure that images are there.
type Puller struct{ d Deps }

// New returns a Puller.
func New(d Deps) *Puller { return &Puller{d: d} }

// Ensure returns the reference to create the container from, pulling the image if the policy says so.
func (p *Puller) Ensure(ctx context.Context, r Request) (string, error) { return p.ensure(ctx, r) }
